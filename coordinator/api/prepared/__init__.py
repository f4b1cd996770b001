"""Requests that a connection sends again and again: a member's heartbeats, its commits of the same partitions.

Such a request differs from the one before in a few bytes: the correlation id, and in a commit the offsets and leader
epochs. When one has come twice it is prepared: all that does not change is read and looked up once. Those that follow
are recognised by their bytes. `bench` counts both ways: a heartbeat costs a quarter less CPU, a commit half.

**One switch.** The dispatcher keeps one `ConnectionRoute` for each kind of request on a connection. It tells the route
of each request that it has handled (`ConnectionRoute.handled`) and may get a `PreparedRequest`. It offers the next
request of the same size to that (`PreparedRequest.handle`), which answers, or says `NOT_PREPARED` and has changed
nothing: then the request is read as any other. `Dispatcher(prepares=False)` switches it off, for tests and for `bench`.

**What may be skipped**, since equal bytes give equal results:
- to decode the request and to build its message;
- to look up the shard, the group, the member and the topics by name, as long as the same objects are in force;
- to build and encode the answer, when it is the one that was prepared; and the bytes of a record that do not vary.

**What may never be skipped**, whatever it costs:
- the decision: the core decides about each request anew, with the same rules (`GenerationMember.heartbeat`,
  `SteadyMember.heartbeat`, `commit_template.commit`), and leaves to the usual way whatever is out of the ordinary;
- permission: the version of the permissions is compared with the one at preparation;
- the topics: a commit is prepared for one image of them;
- leadership: the shard is asked each time whether it is active; records get the leader epoch of that moment;
- durability and order: answers wait for the log, records go through the same batches, a connection has one request at
  a time;
- the interceptor: a request that it wants goes the usual way; and the observer, which sees prepared requests too.

**How equality is proven**: `tests/coordinator/api/prepared/test_equality.py` plays random histories on two nodes, one
with it off, and compares each byte of the answers, the log and the state. `test_switched_off.py` plays stories
of a real Kafka over TCP with it off. `test_prepared.py` has each condition above by itself.
"""
