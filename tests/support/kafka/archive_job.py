"""Follow topics into an archive until killed; a separate program, so a test can kill all of it.

Says when it has begun. Small files are merged after every other commit, so that it is killed at
that, too.
"""

import sys
from pathlib import Path

from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark import session
from sharelag.inputs.spark.follow import follow


def main(bootstrap: str, folder: str, limit: str, *topics: str) -> None:
    session("sharelag-archive", spark_master="local[2]")
    query = follow(
        client_config(bootstrap),
        Path(folder),
        topics=topics,
        every=0.0,
        max_offsets_per_trigger=int(limit),
        compact_every=2,
    )
    print("following", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
