# The native module that setup.py builds from _plain_lines.c.

from schedule_adapters.doctor.decoders import Block

# Raises ValueError for a block that does not end with a newline.
def read_block(block: bytes, first: int) -> Block: ...
