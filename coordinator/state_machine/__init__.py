"""What state machines exchange with the runtime, and the contract between them.

A state machine is the core of one coordinator shard: `groups.core.GroupCore` or `transactions.core.TransactionCore`. A
core opens no socket, reads no clock, sets no timer, touches no file and draws no random number. Only one thread may
call methods at a time. `runtime.interfaces.StateMachine` lists the methods, and `runtime.shard` calls them:

1. `replay`, `replay_transactional` and `end_transaction` for all records of the log, in its order.
2. `loaded`, once.
3. `handle` for each command, `advance` when a deadline is due, `end_transaction` when a transaction ends. A large
   transaction ends in several steps, and other calls may be made between them.
4. `resign`, at most once. The state machine cannot be used afterwards.

Input. Each call gets the time (`Now`). A command is a request in the newest version of its message, with the function
that takes the response. A notice is other input: new topics, or the result of work that was done elsewhere. Equal calls
with equal arguments give equal results.

Output. `handle`, `advance`, `loaded` and `resign` return an `Output`:

* `records` for the log, one batch for each command. The records are part of the state already: one function applies a
  record, live and in replay. If the records cannot be appended, the runtime builds another state machine from the log.
* `replies`: pairs of a response and the function that takes it. A reply is sent when the log is durable up to the
  newest position that the state machine has seen. Instead of a response a reply may have work to be done elsewhere,
  whose result is a notice.
* `events` for the history and the log lines. Events are reported when the records are appended.

Deadlines. After each call the runtime asks for `next_deadline_ms`, and calls `advance` at that time. A call that is too
early does nothing. `advance` gets the times for which answers waited (`LateAnswers`): a client that waits is not dead.
"""
