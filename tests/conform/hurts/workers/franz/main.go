// One trial of franz-go, with the stages and lines of python_clients.py: BOOTSTRAP TOPIC GROUP SECONDS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var bootstrap, topic, group string
var limit time.Duration

func say(words ...any) {
	fmt.Println(strings.ReplaceAll(fmt.Sprintln(words...), "\n", " "))
}

func check(stage string, err error) {
	if err != nil {
		say("error", stage, err)
		os.Exit(0)
	}
}

func client(options ...kgo.Opt) *kgo.Client {
	all := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(limit), kgo.RequestTimeoutOverhead(3 * time.Second), kgo.RetryTimeout(limit),
	}
	made, err := kgo.NewClient(append(all, options...)...)
	check("connect", err)
	return made
}

func produce(count int) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	made := client()
	defer made.Close()
	for i := 0; i < count; i++ {
		check("produce", made.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(strconv.Itoa(i))}).FirstErr())
	}
}

func consumer() *kgo.Client {
	return client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
}

func consume(stage string, made *kgo.Client, count int) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	first := int64(-1)
	for count > 0 {
		fetches := made.PollFetches(ctx)
		for _, one := range fetches.Errors() {
			check(stage, one.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if first < 0 {
				first = record.Offset
			}
			count--
		})
	}
	return first
}

func main() {
	bootstrap, topic, group = os.Args[1], os.Args[2], os.Args[3]
	seconds, _ := strconv.ParseFloat(os.Args[4], 64)
	limit = time.Duration(seconds * float64(time.Second))
	produce(3)
	say("produced")
	one := consumer()
	say("consumed", consume("consume", one, 3))
	time.Sleep(time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	check("commit", one.CommitUncommittedOffsets(ctx))
	cancel()
	say("committed")
	one.Close()
	say("closed")
	produce(1)
	two := consumer()
	say("resumed", consume("resume", two, 1))
	two.Close()
}
