// Command one is the usual scheduler extender in Go: net/http, encoding/json and the Kubernetes types.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"

	"bayplan.dev/bench/peers/go-extender/answer"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "where kube-scheduler calls")
	file := flag.String("nodes", "", "a file from: kubectl get nodes -o json")
	flag.Parse()

	nodes, err := readNodes(*file)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(answer.Serve(*listen, &extender{nodes: nodes}))
}

// readNodes stands in for an informer: the nodes by name, as a lister would have them.
func readNodes(file string) (map[string]*corev1.Node, error) {
	nodes := map[string]*corev1.Node{}
	if file == "" {
		return nodes, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list corev1.NodeList
	if err := json.Unmarshal(content, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes, nil
}
