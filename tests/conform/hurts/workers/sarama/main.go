// One trial of sarama, with the stages and lines of python_clients.py: BOOTSTRAP TOPIC GROUP SECONDS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

var bootstrap, topic, group string
var limit time.Duration
var errLate = errors.New("Late")

func say(words ...any) {
	fmt.Println(strings.TrimSpace(strings.ReplaceAll(fmt.Sprintln(words...), "\n", " ")))
}

func check(stage string, err error) {
	if err != nil {
		say("error", stage, err)
		os.Exit(0)
	}
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Net.ReadTimeout, made.Net.DialTimeout = 5*time.Second, 5*time.Second
	made.Producer.Return.Successes = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Consumer.Group.Session.Timeout, made.Consumer.Group.Heartbeat.Interval = 6*time.Second, 300*time.Millisecond
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	made.Consumer.Return.Errors = true
	return made
}

func within(stage string, job func() error) {
	done := make(chan error, 1)
	go func() { done <- job() }()
	select {
	case err := <-done:
		check(stage, err)
	case <-time.After(limit):
		check(stage, errLate)
	}
}

func produce(count int) {
	within("produce", func() error {
		producer, err := sarama.NewSyncProducer([]string{bootstrap}, config())
		if err != nil {
			return err
		}
		for i := 0; i < count; i++ {
			message := &sarama.ProducerMessage{Topic: topic, Partition: 0, Value: sarama.StringEncoder(strconv.Itoa(i))}
			if _, _, err := producer.SendMessage(message); err != nil {
				return err
			}
		}
		return producer.Close()
	})
}

type handler struct {
	records chan *sarama.ConsumerMessage
	session chan sarama.ConsumerGroupSession
}

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	select {
	case h.session <- session:
	default:
	}
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		h.records <- message
	}
	return nil
}

type member struct {
	group  sarama.ConsumerGroup
	stop   context.CancelFunc
	failed chan error
	handler
}

func consumer() member {
	made, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config())
	check("join", err)
	ctx, cancel := context.WithCancel(context.Background())
	one := member{made, cancel, make(chan error, 100), handler{make(chan *sarama.ConsumerMessage, 10), make(chan sarama.ConsumerGroupSession, 1)}}
	go func() {
		for ctx.Err() == nil {
			if err := made.Consume(ctx, []string{topic}, one.handler); err != nil {
				one.failed <- err
				return
			}
		}
	}()
	return one
}

func (m member) consume(stage string, count int) int64 {
	first, end := int64(-1), time.After(limit)
	for count > 0 {
		select {
		case record := <-m.records:
			if first < 0 {
				first = record.Offset
			}
			count--
		case err := <-m.failed:
			check(stage, err)
		case err := <-m.group.Errors():
			check(stage, err)
		case <-end:
			check(stage, errLate)
		}
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
	say("consumed", one.consume("consume", 3))
	time.Sleep(time.Second)
	within("commit", func() error {
		(<-one.session).Commit()
		select {
		case err := <-one.failed:
			return err
		case err := <-one.group.Errors():
			return err
		case <-time.After(200 * time.Millisecond):
			return nil
		}
	})
	say("committed")
	one.stop()
	within("close", one.group.Close)
	say("closed")
	produce(1)
	two := consumer()
	say("resumed", two.consume("resume", 1))
	two.stop()
	within("close", two.group.Close)
}
