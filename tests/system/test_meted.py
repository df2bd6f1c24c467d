#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""meted and its guests: joining, credit, limits, gates, leaving."""
import os
import time

from meted import *


def test_a_guest_joins_and_is_granted_credit():
    with Daemon() as meted:
        admin = Admin(meted.place)
        made = admin.tenant("1GiB")
        guest = Guest(made.socket)
        assert guest.welcome.tenant == made.tenant and guest.welcome.devices == 1
        shown = guest.shown()
        assert shown["limit"] == GIB and shown["total"] == 4 * GIB and shown["gate"] == OPEN, shown
        assert guest.credit(MIB) == MIB
        guest.allocated(MIB)
        assert guest.refused(GIB) == LIMIT
        row = admin.tenant_row(made.tenant)
        assert (row.allocated, row.credit, row.guests, row.refusals) == (MIB, 0, 1, 1), row
        guest.close()


if __name__ == "__main__":
    run(globals())
