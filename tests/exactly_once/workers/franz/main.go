// The application with franz-go: its GroupTransactSession. The words are those of common.py.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	mostRecords  = 10
	abortedOneIn = 8
)

func main() {
	bootstrap, group, input, output, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[6]
	partitions, _ := strconv.Atoi(os.Args[5])
	ctx, end := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		end()
	}()
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(input), kgo.TransactionalID(group + "-" + name),
		kgo.TransactionTimeout(20 * time.Second), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(1500 * time.Millisecond), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) { fmt.Println("joined", len(assigned[input])) }),
	}
	if len(os.Args) > 7 {
		options = append(options, kgo.InstanceID(name))
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		fail(err)
	}
	for ctx.Err() == nil {
		fetches := session.PollRecords(ctx, mostRecords)
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			fail(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			number, _ := strconv.Atoi(string(record.Value))
			made := fmt.Sprintf("%d:%d:%d:%s", record.Partition, record.Offset, number, name)
			session.Produce(context.Background(), &kgo.Record{Topic: output, Partition: int32(number % partitions), Value: []byte(made)}, nil)
		})
		toAbort := rand.Intn(abortedOneIn) == 0
		if toAbort {
			session.Client().Flush(context.Background())
			fmt.Println("aborted")
		}
		committed, err := session.End(context.Background(), kgo.TransactionEndTry(!toAbort))
		switch {
		case err != nil:
			fail(err)
		case committed:
			fmt.Println("committed", fetches.NumRecords())
		case !toAbort:
			fmt.Println("gave-up")
		}
	}
	session.Close()
}

func fail(err error) {
	word := "failed"
	if strings.Contains(err.Error(), "FENCED") || strings.Contains(err.Error(), "INVALID_PRODUCER_EPOCH") {
		word = "fenced"
	}
	fmt.Println(word, err)
	os.Exit(1)
}
