// Package muster is for tests: a server of Muster as a process, told over HTTP what to do to groups, requests and time.
//
// Copy this file into your tests. It needs the `muster` command (the README says how to install it), on PATH or named
// by the variable MUSTER.
package muster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options of a server.
type Options struct {
	Properties  map[string]string // Kafka's properties by their own names
	Topics      map[string]int    // topics that are there from the start: name -> partitions
	Nodes       int
	VirtualTime bool // time can be frozen and moved
}

// Muster is a running server. Its verbs end the test when the server refuses them, but those with an error do not.
type Muster struct {
	BootstrapServers []string
	control          string
	t                testing.TB
}

// Error is what the server refused, or waited for in vain: then the message tells what the group did. Code is that of
// the API: "timeout", "not-found", …
type Error struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Start starts a server that ends with the test.
func Start(t testing.TB, options Options) *Muster {
	t.Helper()
	m := &Muster{control: freeAddress(t), t: t}
	words := []string{"serve", "--in-memory", "--listen", "127.0.0.1:0", "--control", m.control,
		"--override", "group.initial.rebalance.delay.ms=0"}
	for name, value := range options.Properties {
		words = append(words, "--override", name+"="+value)
	}
	for name, partitions := range options.Topics {
		words = append(words, "--topic", fmt.Sprintf("%s:%d", name, partitions))
	}
	if options.Nodes > 0 {
		words = append(words, "--nodes", fmt.Sprint(options.Nodes))
	}
	if options.VirtualTime {
		words = append(words, "--virtual-time")
	}
	program := os.Getenv("MUSTER")
	if program == "" {
		program = "muster"
	}
	command := exec.Command(program, words...)
	var log bytes.Buffer
	command.Stderr = &log
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		if t.Failed() {
			t.Logf("the server's log:\n%s", &log)
		}
	})
	ready := false
	for lines := bufio.NewScanner(stdout); !ready && lines.Scan(); {
		ready = strings.HasPrefix(lines.Text(), "muster ready ")
	}
	if !ready {
		t.Fatal("the server did not start")
	}
	server := call[struct {
		BootstrapServers string `json:"bootstrap_servers"`
	}](m, "GET", "/server", nil)
	m.BootstrapServers = strings.Split(server.BootstrapServers, ",")
	return m
}

func freeAddress(t testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// Call asks for a verb of the control's API (GET /v1/openapi.json tells all of them) and decodes the answer.
func (m *Muster) Call(method, path string, body, answer any) error {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, "http://"+m.control+"/v1"+path, &sent)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var refused struct{ Error Error }
		if err := json.NewDecoder(response.Body).Decode(&refused); err != nil {
			return fmt.Errorf("%s %s: %s", method, path, response.Status)
		}
		return &refused.Error
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func call[T any](m *Muster, method, path string, body any) T {
	m.t.Helper()
	var answer T
	if err := m.Call(method, path, body, &answer); err != nil {
		m.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// Partitions of one topic.
type Partitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// Member of a group.
type Member struct {
	MemberID   string       `json:"member_id"`
	InstanceID *string      `json:"instance_id"`
	ClientID   string       `json:"client_id"`
	Assignment []Partitions `json:"assignment"`
}

// GroupView is a group as it is at the moment.
type GroupView struct {
	Type       string   `json:"type"`
	State      string   `json:"state"`
	Generation int      `json:"generation"`
	Members    []Member `json:"members"`
}

// Offsets that a group has committed.
type Offsets struct {
	Offsets []struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
		Lag       *int64 `json:"lag"`
	} `json:"offsets"`
	Lag int64 `json:"lag"`
}

// CreateTopic makes a topic.
func (m *Muster) CreateTopic(name string, partitions int) {
	m.t.Helper()
	call[any](m, "POST", "/topics", map[string]any{"name": name, "partitions": partitions})
}

// Produce writes records with these values.
func (m *Muster) Produce(topic string, values ...string) {
	m.t.Helper()
	records := []map[string]any{}
	for _, value := range values {
		records = append(records, map[string]any{"value": value})
	}
	call[any](m, "POST", "/topics/"+url.PathEscape(topic)+"/produce", map[string]any{"records": records})
}

// Group is a consumer group by its id.
type Group struct {
	m    *Muster
	path string
}

// Group has the verbs on a group; it need not be there yet.
func (m *Muster) Group(id string) Group { return Group{m, "/groups/" + url.PathEscape(id)} }

// Describe tells its state and members.
func (g Group) Describe() GroupView { g.m.t.Helper(); return call[GroupView](g.m, "GET", g.path, nil) }

// Offsets tells what it has committed, and its lag.
func (g Group) Offsets() Offsets {
	g.m.t.Helper()
	return call[Offsets](g.m, "GET", g.path+"/offsets", nil)
}

// Timeline tells what happened in it, a line each.
func (g Group) Timeline() string {
	g.m.t.Helper()
	lines := call[struct{ Timeline []string }](g.m, "GET", g.path+"/history", nil).Timeline
	return strings.Join(lines, "\n")
}

// WaitStable waits until it is stable with so many members (0: some), and with every partition of a topic ("": any).
func (g Group) WaitStable(members int, partitions string, timeout time.Duration) (GroupView, error) {
	body := map[string]any{"timeout_ms": timeout.Milliseconds()}
	if members > 0 {
		body["members"] = members
	}
	if partitions != "" {
		body["partitions"] = partitions
	}
	var group GroupView
	return group, g.m.Call("POST", g.path+"/wait-stable", body, &group)
}

// MustBeStable is WaitStable for half a minute; the test ends when it is not.
func (g Group) MustBeStable(members int, partitions string) GroupView {
	g.m.t.Helper()
	group, err := g.WaitStable(members, partitions, 30*time.Second)
	if err != nil {
		g.m.t.Fatal(err)
	}
	return group
}

// WaitConsumed waits until it has committed the ends of a topic.
func (g Group) WaitConsumed(topic string) Offsets {
	g.m.t.Helper()
	return call[Offsets](g.m, "POST", g.path+"/wait-consumed", map[string]any{"topic": topic})
}

// Rebalance forces one.
func (g Group) Rebalance() { g.m.t.Helper(); call[any](g.m, "POST", g.path+"/rebalance", nil) }

// Expire lets the session of a member time out now.
func (g Group) Expire(clientID string) {
	g.m.t.Helper()
	call[any](g.m, "POST", g.path+"/expire", map[string]any{"client_id": clientID})
}

// Remove takes a member out, as an administrator does.
func (g Group) Remove(clientID string) {
	g.m.t.Helper()
	call[any](g.m, "POST", g.path+"/remove", map[string]any{"client_id": clientID})
}

// HoldJoins lets no rebalance end until Release.
func (g Group) HoldJoins() { g.m.t.Helper(); call[any](g.m, "POST", g.path+"/hold-joins", nil) }

// Release lets held joins go.
func (g Group) Release() { g.m.t.Helper(); call[any](g.m, "POST", g.path+"/release", nil) }

// Rule of faults: which requests, what happens to them, and at which of them; see the description of the API.
type Rule struct {
	Match map[string]any `json:"match,omitempty"`
	Then  map[string]any `json:"then"`
	When  map[string]any `json:"when,omitempty"`
}

// Hit tells that a rule hit a request.
type Hit struct {
	Rule     string `json:"rule"`
	API      string `json:"api"`
	ClientID string `json:"client_id"`
	Did      string `json:"did"`
}

// AddFault puts a rule in force and returns its id.
func (m *Muster) AddFault(rule Rule) string {
	m.t.Helper()
	return call[struct{ ID string }](m, "POST", "/faults", rule).ID
}

// ReleaseFault lets go what a rule holds, and lets it hold no more.
func (m *Muster) ReleaseFault(id string) {
	m.t.Helper()
	call[any](m, "POST", "/faults/"+id+"/release", nil)
}

// ClearFaults takes all rules away.
func (m *Muster) ClearFaults() { m.t.Helper(); call[any](m, "DELETE", "/faults", nil) }

// Hits tells which rule hit which request.
func (m *Muster) Hits() []Hit {
	m.t.Helper()
	return call[struct{ Hits []Hit }](m, "GET", "/fault-log", nil).Hits
}

// Scenario starts one by its name.
func (m *Muster) Scenario(name string, parameters map[string]any) {
	m.t.Helper()
	call[any](m, "POST", "/scenarios/"+name, parameters)
}

// Freeze, Advance and Thaw move the server's time; they need VirtualTime.
func (m *Muster) Freeze() { m.t.Helper(); call[any](m, "POST", "/time/freeze", nil) }

// Advance lets so much time pass for the server.
func (m *Muster) Advance(by time.Duration) {
	m.t.Helper()
	call[any](m, "POST", "/time/advance", map[string]any{"ms": by.Milliseconds()})
}

// Thaw lets the server's time run again.
func (m *Muster) Thaw() { m.t.Helper(); call[any](m, "POST", "/time/thaw", nil) }

// Node tells one of several brokers to "stop", "kill", "pause", "resume" or "return".
func (m *Muster) Node(id int, verb string) {
	m.t.Helper()
	call[any](m, "POST", fmt.Sprintf("/nodes/%d/%s", id, verb), nil)
}
