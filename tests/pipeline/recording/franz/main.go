// One consumer process of a recording (record.py) by franz-go. It does and reports what member.py does and reports.
// The only argument is member.py's Settings as JSON. franz-go has no limit between two polls: `sleep` only stops reading.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type settings struct {
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	ClientID    string   `json:"client_id"`
	InstanceID  *string  `json:"instance_id"`
	Topics      []string `json:"topics"`
	Assignor    string   `json:"assignor"`
	SessionMs   int64    `json:"session_ms"`
	HeartbeatMs int64    `json:"heartbeat_ms"`
	CommitMs    int64    `json:"commit_ms"`
	Commits     string   `json:"commits"`
	MaxPollMs   int64    `json:"max_poll_ms"`
	Rate        int      `json:"rate"`
	MetadataMs  int64    `json:"metadata_ms"`
	BatchS      float64  `json:"batch_s"`
}

type place struct {
	topic     string
	partition int32
}

type member struct {
	settings
	client *kgo.Client
	lock   sync.Mutex
	at     map[place]int64
	silent map[int32]bool
}

func ms(number int64) time.Duration { return time.Duration(number) * time.Millisecond }

func tell(what string, more map[string]any) {
	line := map[string]any{"at": time.Now().UnixMilli(), "what": what}
	for name, value := range more {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

func numbers(some map[string][]int32) map[string]any {
	found := []int32{}
	for _, partitions := range some {
		found = append(found, partitions...)
	}
	return map[string]any{"partitions": found}
}

func rows(some map[place]int64) map[string]any {
	found := [][]any{}
	for one, offset := range some {
		found = append(found, []any{one.topic, one.partition, offset})
	}
	return map[string]any{"places": found}
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, some map[string][]int32) {
	tell("assigned", numbers(some))
}

func (m *member) revoked(context context.Context, _ *kgo.Client, some map[string][]int32) {
	if m.Commits == "hand" {
		m.commit()
	} else {
		_ = m.client.CommitUncommittedOffsets(context)
	}
	m.forget(some)
	tell("revoked", numbers(some))
}

func (m *member) lost(_ context.Context, _ *kgo.Client, some map[string][]int32) {
	m.forget(some)
	tell("lost", numbers(some))
}

func (m *member) forget(some map[string][]int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for topic, partitions := range some {
		for _, one := range partitions {
			delete(m.at, place{topic, one})
		}
	}
}

func (m *member) places() map[place]int64 {
	m.lock.Lock()
	defer m.lock.Unlock()
	found := map[place]int64{}
	for one, offset := range m.at {
		found[one] = offset
	}
	return found
}

func (m *member) commit() {
	wanted, done := map[string]map[int32]kgo.EpochOffset{}, map[place]int64{}
	for one, offset := range m.places() {
		if m.silent[one.partition] {
			continue
		}
		if wanted[one.topic] == nil {
			wanted[one.topic] = map[int32]kgo.EpochOffset{}
		}
		wanted[one.topic][one.partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
		done[one] = offset
	}
	if len(done) == 0 {
		return
	}
	patience, end := context.WithTimeout(context.Background(), 5*time.Second)
	defer end()
	m.client.CommitOffsetsSync(patience, wanted, nil)
	tell("committed", rows(done))
}

func (m *member) read() int {
	patience, end := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer end()
	most := -1
	if m.Rate > 0 {
		most = max(int(float64(m.Rate)*m.BatchS), 1)
	}
	fetches := m.client.PollRecords(patience, most)
	m.lock.Lock()
	defer m.lock.Unlock()
	fetches.EachRecord(func(one *kgo.Record) { m.at[place{one.Topic, one.Partition}] = one.Offset + 1 })
	return fetches.NumRecords()
}

func (m *member) hold(partition int32, verb string) {
	delete(m.silent, partition)
	if verb == "pause" {
		m.silent[partition] = true
	}
	these := map[string][]int32{}
	for _, topic := range m.Topics {
		these[topic] = []int32{partition}
	}
	if verb == "go" {
		m.client.ResumeFetchPartitions(these)
	} else {
		m.client.PauseFetchPartitions(these)
	}
}

func (m *member) back(records int64) {
	moved, wanted := map[place]int64{}, map[string]map[int32]kgo.EpochOffset{}
	for one, offset := range m.places() {
		moved[one] = max(offset-records, 0)
		if wanted[one.topic] == nil {
			wanted[one.topic] = map[int32]kgo.EpochOffset{}
		}
		wanted[one.topic][one.partition] = kgo.EpochOffset{Epoch: -1, Offset: moved[one]}
	}
	m.client.SetOffsets(wanted)
	m.lock.Lock()
	for one, offset := range moved {
		m.at[one] = offset
	}
	m.lock.Unlock()
	if m.Commits == "hand" {
		m.commit()
	}
	tell("back", rows(moved))
}

func (m *member) subscribe(topics []string) {
	m.client.PurgeTopicsFromClient(m.Topics...)
	m.client.AddConsumeTopics(topics...)
	m.Topics = topics
}

// Do what a line asks for. It returns whether the process goes on.
func (m *member) do(line string) bool {
	words := strings.Fields(line)
	switch words[0] {
	case "sleep":
		seconds, _ := strconv.ParseFloat(words[1], 64)
		time.Sleep(time.Duration(seconds * float64(time.Second)))
	case "rate":
		m.Rate, _ = strconv.Atoi(words[1])
	case "wake":
	case "back":
		records, _ := strconv.ParseInt(words[1], 10, 64)
		m.back(records)
	case "subscribe":
		m.subscribe(words[1:])
	case "stop":
		if m.Commits == "hand" {
			m.commit()
		}
		tell("leaving", nil)
		m.client.CloseAllowingRebalance()
		tell("left", nil)
		return false
	default:
		partition, _ := strconv.Atoi(words[1])
		m.hold(int32(partition), words[0])
	}
	return true
}

func (m *member) run(lines <-chan string) {
	due := time.Now().Add(ms(m.CommitMs))
	for {
		read := m.read()
		if m.Rate > 0 {
			time.Sleep(time.Second * time.Duration(read) / time.Duration(m.Rate))
		}
		if m.Commits == "hand" && time.Now().After(due) {
			due = time.Now().Add(ms(m.CommitMs))
			m.commit()
		}
		for waits := false; !waits; {
			select {
			case line, open := <-lines:
				if !open {
					line = "stop"
				}
				if line == "hang" {
					line, open = <-lines
					if !open {
						line = "stop"
					}
				}
				if !m.do(line) {
					return
				}
			default:
				waits = true
			}
		}
	}
}

func main() {
	m := &member{at: map[place]int64{}, silent: map[int32]bool{}}
	if err := json.Unmarshal([]byte(os.Args[1]), &m.settings); err != nil {
		panic(err)
	}
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(m.Bootstrap, ",")...), kgo.ClientID(m.ClientID), kgo.ConsumerGroup(m.Group), kgo.ConsumeTopics(m.Topics...),
		kgo.Balancers(balancers[m.Assignor]), kgo.SessionTimeout(ms(m.SessionMs)), kgo.HeartbeatInterval(ms(m.HeartbeatMs)),
		kgo.RebalanceTimeout(ms(max(m.SessionMs, 60_000))), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
		kgo.MetadataMaxAge(ms(m.MetadataMs)),
	}
	if m.InstanceID != nil {
		options = append(options, kgo.InstanceID(*m.InstanceID))
	}
	if m.Commits == "hand" {
		options = append(options, kgo.DisableAutoCommit())
	} else {
		options = append(options, kgo.AutoCommitInterval(ms(m.CommitMs)))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	m.client = client
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	m.run(lines)
}
