package main

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const (
	diskLabel   = "disk"
	pointsLabel = "example.com/points"

	noSSD   = "node has no SSD"
	unknown = "node is not known"
)

// extender lets nodes with an SSD pass, and scores by a number on a label.
type extender struct {
	nodes map[string]*corev1.Node
}

// Filter lets nodes with an SSD pass.
func (e *extender) Filter(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	failed := extenderv1.FailedNodesMap{}
	if args.Nodes != nil {
		passed := make([]corev1.Node, 0, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			node := &args.Nodes.Items[i]
			if reason := refuse(node); reason != "" {
				failed[node.Name] = reason
				continue
			}
			passed = append(passed, *node)
		}
		nodes := &corev1.NodeList{ListMeta: args.Nodes.ListMeta, Items: passed}
		return &extenderv1.ExtenderFilterResult{Nodes: nodes, FailedNodes: failed}
	}
	passed := []string{}
	if args.NodeNames != nil {
		for _, name := range *args.NodeNames {
			if reason := refuse(e.nodes[name]); reason != "" {
				failed[name] = reason
				continue
			}
			passed = append(passed, name)
		}
	}
	return &extenderv1.ExtenderFilterResult{NodeNames: &passed, FailedNodes: failed}
}

// Prioritize scores by the label.
func (e *extender) Prioritize(args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	if args.Nodes != nil {
		scores := make(extenderv1.HostPriorityList, 0, len(args.Nodes.Items))
		for i := range args.Nodes.Items {
			node := &args.Nodes.Items[i]
			scores = append(scores, extenderv1.HostPriority{Host: node.Name, Score: points(node)})
		}
		return scores
	}
	scores := extenderv1.HostPriorityList{}
	if args.NodeNames != nil {
		for _, name := range *args.NodeNames {
			scores = append(scores, extenderv1.HostPriority{Host: name, Score: points(e.nodes[name])})
		}
	}
	return scores
}

// refuse says why the pod cannot go to the node; nothing where it can.
func refuse(node *corev1.Node) string {
	switch {
	case node == nil:
		return unknown
	case node.Labels[diskLabel] != "ssd":
		return noSSD
	default:
		return ""
	}
}

// points is the number on the label, within what kube-scheduler takes; 0 where there is none.
func points(node *corev1.Node) int64 {
	if node == nil {
		return extenderv1.MinExtenderPriority
	}
	number, err := strconv.ParseInt(node.Labels[pointsLabel], 10, 64)
	if err != nil {
		return extenderv1.MinExtenderPriority
	}
	return min(max(number, extenderv1.MinExtenderPriority), extenderv1.MaxExtenderPriority)
}
