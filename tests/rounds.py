"""How often a fault is repeated: COFFER_TEST_ROUNDS times, 10 by default, ``full`` in ``make hold``."""

import os


def rounds(full: int) -> int:
    """The number of rounds; ``full`` is what the test asks for when it runs at full length."""
    wanted = os.environ.get("COFFER_TEST_ROUNDS", "10")
    return full if wanted == "full" else min(int(wanted), full)
