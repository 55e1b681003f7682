"""A cleaner pass as described in Redis in Action, section 5.2.1.

Usage: clean.py PORT NOW. Prints the number of removed samples and the elapsed seconds.

Iterates over the sorted set of known hashes by rank. Hashes that are due (every minute, or less often for wider buckets)
are read, and samples older than 120 buckets are deleted. A hash that is now empty is removed from the set, unless it
has been written to in the meantime.
"""

import bisect
import sys
import time

import redis

RETAINED_BUCKETS = 120


def clean(server, now, turn):
    removed = rank = 0
    while rank < server.zcard("known:"):
        members = server.zrange("known:", rank, rank)
        rank += 1
        if not members:
            break
        width = int(members[0].split(b":", 1)[0])
        if turn % max(width // 60, 1):
            continue
        key = b"count:" + members[0]
        starts = sorted(int(start) for start in server.hkeys(key))
        old = bisect.bisect_right(starts, now - RETAINED_BUCKETS * width)
        if old == 0:
            continue
        server.hdel(key, *starts[:old])
        removed += old
        if old == len(starts) and forget(server, key, members[0]):
            rank -= 1
    return removed


def forget(server, key, member):
    with server.pipeline(True) as transaction:
        try:
            transaction.watch(key)
            if transaction.hlen(key):
                return False
            transaction.multi()
            transaction.zrem("known:", member)
            transaction.execute()
            return True
        except redis.WatchError:
            return False


if __name__ == "__main__":
    client = redis.Redis(port=int(sys.argv[1]))
    client.ping()
    started = time.perf_counter()
    samples = clean(client, int(sys.argv[2]), 0)
    print(samples, time.perf_counter() - started)
