// Package answer is the way in of both extenders: net/http and encoding/json, as extenders in Go usually have it.
package answer

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strconv"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Extender judges nodes.
type Extender interface {
	Filter(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult
	Prioritize(args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList
}

// Serve answers kube-scheduler for as long as it can.
func Serve(listen string, extender Extender) error {
	http.HandleFunc("POST /filter", handler(extender.Filter))
	http.HandleFunc("POST /prioritize", handler(extender.Prioritize))
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	return http.ListenAndServe(listen, nil)
}

// handler decodes a request, has it judged, and encodes the answer.
func handler[T any](judge func(*extenderv1.ExtenderArgs) T) http.HandlerFunc {
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
