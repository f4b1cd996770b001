package muster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Tests of consumers of franz-go, with nothing that sleeps.

// consume reads a topic as a member of a group until the test ends; the values come through the channel.
func consume(t *testing.T, m *Muster, clientID, group, topic string) <-chan string {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(m.BootstrapServers...),
		kgo.ClientID(clientID),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(100*time.Millisecond),
		kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	values, ended := make(chan string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			fetches.EachRecord(func(record *kgo.Record) { values <- string(record.Value) })
		}
	}()
	t.Cleanup(func() { cancel(); <-ended; client.Close() })
	return values
}

func TestTwoConsumersShareATopicAndOneThatFallsSilentLosesItsShare(t *testing.T) {
	m := Start(t, Options{Topics: map[string]int{"orders": 4}})
	group := m.Group("shop")
	consume(t, m, "one", "shop", "orders")
	consume(t, m, "two", "shop", "orders")
	stable := group.MustBeStable(2, "orders")
	for _, member := range stable.Members {
		if len(member.Assignment) != 1 || len(member.Assignment[0].Partitions) != 2 {
			t.Errorf("%s has %v", member.ClientID, member.Assignment)
		}
	}
	group.Expire("two")
	// franz-go comes back by itself: the rebalances of its leaving and of its return
	if later := group.MustBeStable(2, "orders"); later.Generation <= stable.Generation {
		t.Errorf("generation %d after %d", later.Generation, stable.Generation)
	}
	if timeline := group.Timeline(); !strings.Contains(timeline, "two") {
		t.Error(timeline)
	}
}

func TestACommitThatIsRefusedOnceIsMadeAgain(t *testing.T) {
	m := Start(t, Options{Topics: map[string]int{"payments": 1}})
	m.Produce("payments", "paid")
	rule := m.AddFault(Rule{
		Match: map[string]any{"api": "OffsetCommit", "group": "till"},
		Then:  map[string]any{"do": "error", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
		When:  map[string]any{"once": true},
	})
	values := consume(t, m, "till-1", "till", "payments")
	if value := <-values; value != "paid" {
		t.Error(value)
	}
	if offsets := m.Group("till").WaitConsumed("payments"); offsets.Lag != 0 {
		t.Error(offsets)
	}
	if hits := m.Hits(); len(hits) != 1 || hits[0].Rule != rule || hits[0].API != "OffsetCommit" {
		t.Error(hits)
	}
}

func TestARebalanceLastsAsLongAsTheTestWants(t *testing.T) {
	m := Start(t, Options{Topics: map[string]int{"parcels": 2}})
	group := m.Group("depot")
	consume(t, m, "a", "depot", "parcels")
	group.MustBeStable(1, "parcels")
	group.HoldJoins()
	group.Rebalance()
	_, err := group.WaitStable(0, "", 300*time.Millisecond)
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "timeout" {
		t.Errorf("%v", err)
	}
	group.Release()
	group.MustBeStable(1, "parcels")
}

func TestTimeMovesForTheServerAlone(t *testing.T) {
	m := Start(t, Options{Topics: map[string]int{"orders": 2}, VirtualTime: true})
	consume(t, m, "one", "shop", "orders")
	before := m.Group("shop").MustBeStable(1, "orders")
	m.Freeze()
	m.Advance(time.Minute) // longer than the session of the client, which heartbeats by its own clock
	m.Thaw()
	if later := m.Group("shop").MustBeStable(1, "orders"); later.Generation <= before.Generation {
		t.Errorf("generation %d after %d", later.Generation, before.Generation)
	}
}
