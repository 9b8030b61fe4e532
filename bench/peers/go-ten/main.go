// Command go-ten is an extender in Go with ten rules, written as one would write it for production: it follows
// nodes and pods with client-go's informers, and keeps sums that the rules need, so that a rule is arithmetic.
//
// It has the rules of bench/peers/bayplan/ten.py, and answers the same.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
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
	http.HandleFunc("POST /filter", answer(cluster.filter))
	http.HandleFunc("POST /prioritize", answer(cluster.prioritize))
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	log.Fatal(http.ListenAndServe(*listen, nil))
}

// answer decodes a request about names, has it judged, and encodes the answer.
func answer[T any](judge func(*extenderv1.ExtenderArgs) T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if args.Pod == nil || args.NodeNames == nil {
			http.Error(w, "a pod and names of nodes are needed: set nodeCacheCapable", http.StatusBadRequest)
			return
		}
		body, err := json.Marshal(judge(&args))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if _, err := w.Write(body); err != nil {
			log.Print(err)
		}
	}
}
