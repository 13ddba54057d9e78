"""Encode rows and deal them to clients. Names are imported when first used.

``DataRequest`` and ``BUILT_IN`` need no numpy, so a command line can parse its options at once.
"""

from typing import TYPE_CHECKING

from fedfb.extras import export_lazily

if TYPE_CHECKING:
    from fedfb.data.datasets.fetch import path_of as path_of
    from fedfb.data.encode import Encoder as Encoder
    from fedfb.data.encode import RawRows as RawRows
    from fedfb.data.encode import encode_file as encode_file
    from fedfb.data.federation import Federation as Federation
    from fedfb.data.federation import astype as astype
    from fedfb.data.federation import federate as federate
    from fedfb.data.federation import hold_out as hold_out
    from fedfb.data.federation import pooled as pooled
    from fedfb.data.groups import Groups as Groups
    from fedfb.data.groups import groups_in as groups_in
    from fedfb.data.loading import load as load
    from fedfb.data.own import federation_from_frames as federation_from_frames
    from fedfb.data.partition import by_shares as by_shares
    from fedfb.data.partition import parse_partition as parse_partition
    from fedfb.data.request import BUILT_IN as BUILT_IN
    from fedfb.data.request import DataRequest as DataRequest
    from fedfb.data.request import check_request as check_request

_HOME = {
    "BUILT_IN": "request",
    "DataRequest": "request",
    "Encoder": "encode",
    "Federation": "federation",
    "Groups": "groups",
    "RawRows": "encode",
    "astype": "federation",
    "by_shares": "partition",
    "check_request": "request",
    "encode_file": "encode",
    "federate": "federation",
    "federation_from_frames": "own",
    "groups_in": "groups",
    "hold_out": "federation",
    "load": "loading",
    "parse_partition": "partition",
    "path_of": "datasets.fetch",
    "pooled": "federation",
}

__getattr__, __dir__, __all__ = export_lazily(__name__, _HOME)
