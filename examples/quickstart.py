import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(server="localhost:9092"):
    async with AIOKafkaProducer(bootstrap_servers=server) as producer:
        await producer.send_and_wait("orders", b"one pizza")
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=server, group_id="kitchen", auto_offset_reset="earliest"
    ) as consumer:
        print((await consumer.getone()).value)


asyncio.run(main())
