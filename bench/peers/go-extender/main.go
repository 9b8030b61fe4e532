// Command go-extender is the usual scheduler extender in Go: net/http, encoding/json and the Kubernetes types.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8888", "where kube-scheduler calls")
	file := flag.String("nodes", "", "a file from: kubectl get nodes -o json")
	flag.Parse()

	nodes, err := readNodes(*file)
	if err != nil {
		log.Fatal(err)
	}
	ext := &extender{nodes: nodes}
	http.HandleFunc("POST /filter", answer(ext.filter))
	http.HandleFunc("POST /prioritize", answer(ext.prioritize))
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	log.Fatal(http.ListenAndServe(*listen, nil))
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

// answer decodes a request, has it judged, and encodes the answer.
func answer[T any](judge func(*extenderv1.ExtenderArgs) T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
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
