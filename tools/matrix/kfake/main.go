// A broker of franz-go's kfake: `kfake PORT [name=value ...]`. It ends with its standard input.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	configs := map[string]string{}
	for _, pair := range os.Args[2:] {
		name, value, _ := strings.Cut(pair, "=")
		configs[name] = value
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.BrokerConfigs(configs))
	if err != nil {
		panic(err)
	}
	fmt.Println("ready", cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
	cluster.Close()
}
