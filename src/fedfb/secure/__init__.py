"""Secure sums: the server learns the total of all uploads, and no single upload.

Pure functions over bytes; nothing here uses a network. The protocol is that of Bonawitz et al. (CCS
2017) with drop-outs, on the graph of Bell et al. (CCS 2020) for many clients. What it protects, and
what it does not protect: docs/threat-model.md.

>>> import numpy as np
>>> server_key = make_link_key()
>>> keys = [make_client_keys(id) for id in (0, 1, 2, 3)]
>>> roster = make_roster(
...     period=draw_period(),
...     server=derive_public_key(server_key),
...     clients=[key.entry for key in keys],
...     plan=make_plan(4),
... )
>>> memberships = {key.id: accept(key, roster, derive_public_key(server_key)) for key in keys}
>>> parts = [Part("loss", (2,), bound=100.0, bits=30)]
>>> session = make_session(roster, round=0, exchange=0, parts=parts)
>>> uploads = {id: {"loss": np.array([0.5, float(id)])} for id in memberships}
>>> vectors = {id: encode(session.schema, upload) for id, upload in uploads.items()}
>>> summed = sum_in_process(session, server_key, memberships, vectors, silent={3: Kind.MASKED})
>>> summed.total.survivors
(0, 1, 2)
>>> decode(session.schema, len(summed.total.survivors), summed.total.vector)
{'loss': array([1.5, 3. ])}
"""

from fedfb.secure.client import ClientKeys as ClientKeys
from fedfb.secure.client import ClientState as ClientState
from fedfb.secure.client import Membership as Membership
from fedfb.secure.client import accept as accept
from fedfb.secure.client import change_roster as change_roster
from fedfb.secure.client import confirm as confirm
from fedfb.secure.client import join as join
from fedfb.secure.client import make_client_keys as make_client_keys
from fedfb.secure.client import mask as mask
from fedfb.secure.client import reveal as reveal
from fedfb.secure.client import share as share
from fedfb.secure.encoding import AuthenticationError as AuthenticationError
from fedfb.secure.encoding import FormatError as FormatError
from fedfb.secure.encoding import ProtocolError as ProtocolError
from fedfb.secure.encoding import RangeError as RangeError
from fedfb.secure.encoding import SecureError as SecureError
from fedfb.secure.encoding import ThresholdError as ThresholdError
from fedfb.secure.evidence import Evidence as Evidence
from fedfb.secure.evidence import Total as Total
from fedfb.secure.evidence import estimate_bytes as estimate_bytes
from fedfb.secure.evidence import read_evidence as read_evidence
from fedfb.secure.evidence import verify_total as verify_total
from fedfb.secure.evidence import write_evidence as write_evidence
from fedfb.secure.fixed_point import Part as Part
from fedfb.secure.fixed_point import Schema as Schema
from fedfb.secure.fixed_point import choose_bits as choose_bits
from fedfb.secure.fixed_point import decode as decode
from fedfb.secure.fixed_point import encode as encode
from fedfb.secure.fixed_point import make_schema as make_schema
from fedfb.secure.graph import Plan as Plan
from fedfb.secure.graph import make_plan as make_plan
from fedfb.secure.in_process import SecureSum as SecureSum
from fedfb.secure.in_process import SentMessage as SentMessage
from fedfb.secure.in_process import sum_in_process as sum_in_process
from fedfb.secure.keys import derive_identity_key as derive_identity_key
from fedfb.secure.keys import derive_public_key as derive_public_key
from fedfb.secure.keys import make_link_key as make_link_key
from fedfb.secure.messages import Header as Header
from fedfb.secure.messages import Kind as Kind
from fedfb.secure.messages import read_header as read_header
from fedfb.secure.roster import SERVER as SERVER
from fedfb.secure.roster import ClientEntry as ClientEntry
from fedfb.secure.roster import Roster as Roster
from fedfb.secure.roster import Session as Session
from fedfb.secure.roster import draw_period as draw_period
from fedfb.secure.roster import make_roster as make_roster
from fedfb.secure.roster import make_session as make_session
from fedfb.secure.roster import read_roster as read_roster
from fedfb.secure.roster import write_roster as write_roster
from fedfb.secure.secrets import Ring as Ring
from fedfb.secure.server import ServerState as ServerState
from fedfb.secure.server import advance as advance
from fedfb.secure.server import make_evidence as make_evidence
from fedfb.secure.server import open_sum as open_sum
from fedfb.secure.server import receive as receive
from fedfb.secure.server import unmask as unmask
