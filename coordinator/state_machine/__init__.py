"""What state machines exchange with the runtime, and the contract between them.

A state machine is the core of one coordinator shard: `groups.core.GroupCore` or `transactions.core.TransactionCore`.
It opens no socket, reads no clock, sets no timer, touches no file and draws no random number. Nothing in it is safe to
call from two threads. `runtime.interfaces.StateMachine` lists its methods, and `runtime.shard` calls them.

The order of calls:

1. `replay`, `replay_transactional` and `end_transaction` for all records of the log, in its order.
2. `loaded`, once.
3. `handle` for each command, and `advance` when a deadline is due, in any order. `end_transaction` is also called when
   a transaction ends now. A large transaction ends in several steps, and other calls may be made between them.
4. `resign`, at most once. The state machine cannot be used afterwards.

Input. Each call gets the time (`Now`). A command is a request in the newest version of its message, with the function
that takes the response. A notice is other input: new topics, or the result of work that was done elsewhere. `handle`
also gets the number of bytes that the records of the command may have. Equal calls with equal arguments give equal
results.

Output. `handle`, `advance`, `loaded` and `resign` return an `Output`:

* `records` for the log. They are part of the state already. One function changes the state by a record, in a replay and
  in a decision. So a replay of the log gives the live state. The runtime appends the records of one command as one
  batch. If it cannot, it drops the state machine, and builds another from the log.
* `replies`: a function that takes a response, and the response. The state machine never calls the function. A reply is
  sent when the log is durable up to the newest position that the state machine has seen. A reply may also start work
  elsewhere. The function then takes what is wanted, and the result is a notice.
* `events` for the history and the log lines. They are reported when the records are appended.

Deadlines. After each call the runtime asks for `next_deadline_ms`, and calls `advance` at that time. A call that is too
early does nothing. `deadlines.earliest_ms` has the same answer, or an earlier time, without a call. A client that waits
for an answer must not count as dead. So `advance` gets the times for which answers waited (`LateAnswers`).
"""
