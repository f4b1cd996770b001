"""Cached requests: requests that a connection sends again and again. Examples are a member's heartbeats and its commits
of the same partitions.

Such a request differs from the one before in a few bytes. These are the correlation id and, in a commit, the offsets
and leader epochs. When a request has arrived twice it is cached: all that does not change is decoded and looked up
once. Later ones are recognized by their bytes. `bench` measures both: in `bench/results.md`
a heartbeat uses 10 to 17 % less CPU, and a commit some 40 % less.

**One switch.** The dispatcher keeps one `ConnectionRoute` for each kind of request on a connection. It reports each
handled request to the route (`ConnectionRoute.handled`) and may get a `PreparedRequest`. It offers the next request of
the same size to that (`PreparedRequest.handle`). The cached request answers, or returns `NOT_PREPARED` and has changed
nothing: then the request is decoded as any other. `Dispatcher(prepares=False)` switches this off, for tests and for
`bench`.

**What may be skipped**, since equal bytes give equal results:
- to decode the request and to build its message;
- to look up the shard, group, member and topics by name, while the same objects are in force;
- to build and encode the answer, when it is the prepared one;
- to encode the bytes of a record that do not vary.

**What may never be skipped**, whatever its cost:
- the decision: the state machine decides about each request again, with the same rules (`GenerationMember.heartbeat`,
  `SteadyMember.heartbeat`, `commit_prepared`). It leaves every unusual request to the usual path;
- permission: the version of the permissions is compared with the version at preparation;
- the topics: a commit is prepared for one image of them;
- leadership: the shard is asked each time whether it is active; records get the present leader epoch;
- durability: answers wait for the log;
- order: records use the same batches, and a connection has one request at a time;
- the interceptor: a request that it wants takes the usual path;
- the observer: it also gets cached requests.

**How equality is proven**: `tests/coordinator/api/prepared/test_equality.py` plays random histories on two nodes. One
node has the cache off. The test compares each byte of the answers, the log and the state. `test_switched_off.py` plays
stories of a real Kafka over TCP with the cache off. `test_prepared.py` tests each condition above by itself.
"""
