"""The core: Kafka's group coordinator as a pure state machine.

Commands and the time are its input; replies, records, events and the next deadline are its output. The core opens no
socket, reads no clock, sets no timer, touches no file and draws no random number. Its input and output types are in
`state_machine.interface`.
"""
