"""The core: Kafka's group coordinator as a pure state machine.

Commands and the time go in; replies, records, events and the next deadline come out. It opens no socket, reads
no clock, sets no timer, touches no file and draws no random number; `interface` has the words it is spoken to with.
"""
