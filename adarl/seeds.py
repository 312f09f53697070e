"""Every random draw of a run comes from a named seed."""

import hashlib


def derive_seed(*names: int | str) -> int:
    """A seed in [0, 2^63) that depends on all names and on nothing else.

    The same names give the same seed in any process, on any rank, before or after a resume. The
    names are joined by a separator that cannot occur in an int's text, so ("a", 11) and ("a1", 1)
    differ.
    """
    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in names)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
