// Consumers of franz-go, told by lines on stdin what to do, telling on stdout what happened. The words are those of
// tests/conformance/Clients.java: consume, stop, produce. Of the properties it knows group.protocol=consumer,
// group.instance.id, group.remote.assignor and partition.assignment.strategy (range, cooperative).
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap = os.Args[1]
	out       sync.Mutex
)

func say(words ...any) {
	out.Lock()
	defer out.Unlock()
	fmt.Println(words...)
}

type member struct {
	name string
	end  context.CancelFunc
	done chan struct{}
}

func tell(what, name string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		words := []string{}
		for _, numbers := range partitions {
			for _, number := range numbers {
				words = append(words, strconv.Itoa(int(number)))
			}
		}
		sort.Strings(words)
		say(strings.Join(append([]string{what, name}, words...), " "))
	}
}

func consume(name, group, topic string, pairs []string) *member {
	revoked := tell("revoked", name)
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ClientID(name), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(tell("assigned", name)), kgo.OnPartitionsLost(tell("lost", name)),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				say("failed", name, err)
			}
			revoked(ctx, client, partitions)
		}),
		kgo.HeartbeatInterval(50 * time.Millisecond), kgo.SessionTimeout(10 * time.Second), kgo.MetadataMinAge(50 * time.Millisecond),
	}
	if strings.HasPrefix(topic, "~") {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+topic[1:]+"$"))
	} else {
		options = append(options, kgo.ConsumeTopics(topic))
	}
	balancer := kgo.RangeBalancer()
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		switch key + "=" + value {
		case "group.protocol=consumer":
			options = append(options, kgo.ServerSideBalancer())
		case "group.remote.assignor=uniform", "partition.assignment.strategy=cooperative":
			balancer = kgo.CooperativeStickyBalancer()
		case "group.remote.assignor=range", "partition.assignment.strategy=range":
		case "group.instance.id=" + value:
			options = append(options, kgo.InstanceID(value))
		default:
			say("failed", name, "does not know", pair)
		}
	}
	client, err := kgo.NewClient(append(options, kgo.Balancers(balancer))...)
	if err != nil {
		say("failed", name, err)
		return nil
	}
	ctx, end := context.WithCancel(context.Background())
	one := &member{name, end, make(chan struct{})}
	go func() {
		defer close(one.done)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			fetches.EachError(func(_ string, _ int32, err error) {
				if ctx.Err() == nil {
					say("failed", name, err)
				}
			})
			fetches.EachRecord(func(record *kgo.Record) {
				say("record", name, record.Topic, record.Partition, record.Offset)
			})
			if fetches.NumRecords() > 0 {
				if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
					say("failed", name, "to commit:", err)
				}
			}
			client.AllowRebalance()
		}
		client.Close()
		say("stopped", name)
	}()
	return one
}

func produce(topic string, first, count int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		say("failed producer", err)
		return
	}
	defer client.Close()
	records := []*kgo.Record{}
	for number := first; number < first+count; number++ {
		text := []byte(strconv.Itoa(number))
		records = append(records, &kgo.Record{Topic: topic, Key: text, Value: text})
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		say("failed producer", err)
		return
	}
	say("produced", count)
}

func main() {
	members := map[string]*member{}
	stop := func(name string) {
		if one := members[name]; one != nil {
			delete(members, name)
			one.end()
			<-one.done
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		switch words[0] {
		case "consume":
			members[words[1]] = consume(words[1], words[2], words[3], words[4:])
		case "stop":
			stop(words[1])
		case "produce":
			first, _ := strconv.Atoi(words[2])
			count, _ := strconv.Atoi(words[3])
			go produce(words[1], first, count)
		default:
			say("failed main does not know", lines.Text())
		}
	}
	for name := range members {
		stop(name)
	}
}
