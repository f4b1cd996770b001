// One consumer process of a recording (record.py) by Sarama. It does and reports what member.py does and reports, but
// neither `back` nor `subscribe`. The only argument is member.py's Settings as JSON. Sarama reads each partition in its
// own goroutine. It has no limit between two polls: `sleep` only stops reading.
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

	"github.com/IBM/sarama"
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
	Rate        int      `json:"rate"`
	MetadataMs  int64    `json:"metadata_ms"`
}

type place struct {
	topic     string
	partition int32
}

type member struct {
	settings
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	at      map[place]int64
	held    map[int32]string
	asleep  time.Time
	turn    sync.Mutex
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

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	m.session, m.at = session, map[place]int64{}
	m.lock.Unlock()
	tell("assigned", numbers(session.Claims()))
	return nil
}

func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.commit()
	m.lock.Lock()
	m.session = nil
	m.lock.Unlock()
	tell("revoked", numbers(session.Claims()))
	return nil
}

func (m *member) waits(partition int32) bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.held[partition] != "" || time.Now().Before(m.asleep)
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		if m.waits(claim.Partition()) {
			select {
			case <-session.Context().Done():
				return nil
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		select {
		case <-session.Context().Done():
			return nil
		case one, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.lock.Lock()
			m.at[place{one.Topic, one.Partition}] = one.Offset + 1
			m.lock.Unlock()
			session.MarkMessage(one, "")
			if m.Rate > 0 {
				m.turn.Lock()
				time.Sleep(time.Second / time.Duration(m.Rate))
				m.turn.Unlock()
			}
		}
	}
}

// Commit by hand. Sarama only commits what is new, so a partition that sticks is set to the same offset again.
func (m *member) commit() {
	m.lock.Lock()
	session, done := m.session, [][]any{}
	if session == nil || m.Commits != "hand" {
		m.lock.Unlock()
		return
	}
	for one, offset := range m.at {
		if m.held[one.partition] == "pause" {
			continue
		}
		if m.held[one.partition] == "stick" {
			session.ResetOffset(one.topic, one.partition, offset, "")
		}
		done = append(done, []any{one.topic, one.partition, offset})
	}
	m.lock.Unlock()
	if len(done) > 0 {
		session.Commit()
		tell("committed", map[string]any{"places": done})
	}
}

// Do what a line asks for. It returns whether the process goes on.
func (m *member) do(line string) bool {
	words := strings.Fields(line)
	if words[0] == "stop" {
		return false
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	if words[0] == "sleep" {
		seconds, _ := strconv.ParseFloat(words[1], 64)
		m.asleep = time.Now().Add(time.Duration(seconds * float64(time.Second)))
		return true
	}
	if words[0] == "hang" {
		m.asleep = time.Now().Add(time.Hour)
		return true
	}
	if words[0] == "wake" {
		m.asleep = time.Now()
		return true
	}
	partition, _ := strconv.Atoi(words[1])
	delete(m.held, int32(partition))
	if words[0] != "go" {
		m.held[int32(partition)] = words[0]
	}
	return true
}

func (m *member) config() *sarama.Config {
	strategies := map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
		"cooperative-sticky": sarama.NewBalanceStrategySticky(),
	}
	found := sarama.NewConfig()
	found.Version, found.ClientID = sarama.V2_8_0_0, m.ClientID
	found.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[m.Assignor]}
	found.Consumer.Group.Session.Timeout, found.Consumer.Group.Heartbeat.Interval = ms(m.SessionMs), ms(m.HeartbeatMs)
	found.Consumer.Offsets.Initial = sarama.OffsetOldest
	found.Consumer.Offsets.AutoCommit.Enable = m.Commits == "auto"
	found.Consumer.Offsets.AutoCommit.Interval = ms(m.CommitMs)
	found.Metadata.RefreshFrequency = ms(m.MetadataMs)
	if m.InstanceID != nil {
		found.Consumer.Group.InstanceId = *m.InstanceID
	}
	return found
}

// The broker may be away: it is asked again each second.
func (m *member) group() sarama.ConsumerGroup {
	for {
		group, err := sarama.NewConsumerGroup(strings.Split(m.Bootstrap, ","), m.Group, m.config())
		if err == nil {
			return group
		}
		time.Sleep(time.Second)
	}
}

func main() {
	m := &member{at: map[place]int64{}, held: map[int32]string{}}
	if err := json.Unmarshal([]byte(os.Args[1]), &m.settings); err != nil {
		panic(err)
	}
	group := m.group()
	until, stop := context.WithCancel(context.Background())
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() && m.do(in.Text()) {
		}
		tell("leaving", nil)
		stop()
	}()
	if m.Commits == "hand" {
		go func() {
			for range time.Tick(ms(m.CommitMs)) {
				m.commit()
			}
		}()
	}
	for until.Err() == nil {
		if err := group.Consume(until, m.Topics, m); err != nil {
			time.Sleep(time.Second)
		}
	}
	_ = group.Close()
	tell("left", nil)
}
