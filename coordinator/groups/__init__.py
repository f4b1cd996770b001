"""The core: Kafka's group coordinator as a pure state machine.

The input is commands and the time; the output is replies, records, events and the next deadline. The core opens no
socket, reads no clock, sets no timer, touches no file and draws no random number. `state_machine.interface` has the
types of input and output.
"""
