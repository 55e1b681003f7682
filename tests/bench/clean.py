"""One pass of the cleaner of Redis in Action, section 5.2.1, written from its description.

Usage: clean.py PORT NOW. Prints how many samples it removed, and in how many seconds.

It goes through the sorted set of known hashes by rank. Each hash whose turn it is (one a minute, those of
wider buckets as often as their width) is asked for its fields; what is older than 120 buckets is deleted,
and a hash that has become empty leaves the set, unless somebody has written to it meanwhile.
"""

import bisect
import sys
import time

import redis

KEPT = 120


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
        old = bisect.bisect_right(starts, now - KEPT * width)
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
    began = time.perf_counter()
    samples = clean(client, int(sys.argv[2]), 0)
    print(samples, time.perf_counter() - began)
