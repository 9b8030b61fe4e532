// Command ten is an extender in Go with ten rules, written as one would write it for production: it follows
// nodes and pods with client-go's informers, and keeps sums that the rules need, so that a rule is arithmetic.
//
// It has the rules of bench/peers/bayplan/ten.py, and answers the same.
package main

import (
	"context"
	"flag"
	"log"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"bayplan.dev/bench/peers/go-extender/answer"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "where kube-scheduler calls")
	kubeconfig := flag.String("kubeconfig", "", "the cluster to follow")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	cluster, err := follow(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(answer.Serve(*listen, cluster))
}
