"""What each silo adds to a disparity: the disparity with it, and without it."""

from collections.abc import Mapping

from fedfb.audit.measures import BLOCKS, Record
from fedfb.audit.suppress import Published
from fedfb.notions.values import largest_rate_gap


def without(total: Published, silo: Published) -> Published:
    """Take what is shown of a silo out of what is shown of all.

    Only published numbers are used: of a silo whose cells are partly hidden, the rest stays in.
    """
    return total._replace(
        rows=total.rows - silo.rows,
        selected=total.selected - silo.selected,
        confusion=total.confusion - silo.confusion,
    )


def contributions(total: Published, silos: Mapping[str, Published], minimum: int) -> list[Record]:
    """Return for every silo the disparities without it, and how much of them is its doing.

    ``partly`` marks a silo of which some cells are hidden. A positive ``change`` says that the
    federation would be fairer without the silo.
    """
    found = []
    for name, silo in silos.items():
        rest, measured = without(total, silo), {}
        for notion, blocks in BLOCKS.items():
            after = largest_rate_gap(*blocks(rest), minimum)
            before = largest_rate_gap(*blocks(total), minimum)
            known = before is not None and after is not None and bool(silo.rows.any())
            measured[notion] = {
                "without": after if known else None,
                "change": before - after if known else None,  # type: ignore[operator]
            }
        hidden = ~silo.none & ~(silo.whole & (silo.split | ~total.split))
        found.append({"name": name, "partly": bool(hidden.any()), "notions": measured})
    return found
