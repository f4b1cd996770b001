// A broker of kfake, franz-go's fake, in a process of its own: it prints its addresses, and runs until it is killed.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.DefaultNumPartitions(1),
		kfake.AllowAutoTopicCreation(),
		kfake.GroupMinSessionTimeout(0),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	select {}
}
