package main

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const unknown = "node is not known"

var noUse = &use{}

// filterRule says why the pod cannot go to the node; nothing where it can.
type filterRule func(memory int64, node *corev1.Node, used *use) string

var filterRules = []filterRule{onSSD, inService, staying, headroom, notCrowded}

func onSSD(_ int64, node *corev1.Node, _ *use) string {
	if node.Labels["disk"] != "ssd" {
		return "node has no SSD"
	}
	return ""
}

func inService(_ int64, node *corev1.Node, _ *use) string {
	for i := range node.Status.Conditions {
		condition := &node.Status.Conditions[i]
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue && !node.Spec.Unschedulable {
			return ""
		}
	}
	return "node is not in service"
}

func staying(_ int64, node *corev1.Node, _ *use) string {
	if node.Labels["example.com/retiring"] == "true" {
		return "node is to be taken away"
	}
	return ""
}

func headroom(memory int64, node *corev1.Node, used *use) string {
	there := node.Status.Allocatable.Memory().Value()
	if float64(there-used.memory-memory) < 0.05*float64(there) {
		return "memory would be over 95 %"
	}
	return ""
}

func notCrowded(_ int64, _ *corev1.Node, used *use) string {
	if used.pods >= 100 {
		return "node has 100 pods"
	}
	return ""
}

// Filter asks the filter rules, one after the other, until one of them refuses.
func (c *cluster) Filter(args *extenderv1.ExtenderArgs) *extenderv1.ExtenderFilterResult {
	if args.Pod == nil || args.NodeNames == nil {
		return &extenderv1.ExtenderFilterResult{Error: "want a pod and names of nodes: set nodeCacheCapable"}
	}
	needs := resource.PodRequests(args.Pod, resource.PodResourcesOptions{})
	memory := needs.Memory().Value()
	failed := extenderv1.FailedNodesMap{}
	passed := []string{}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, name := range *args.NodeNames {
		if reason := c.refuse(memory, name); reason != "" {
			failed[name] = reason
			continue
		}
		passed = append(passed, name)
	}
	return &extenderv1.ExtenderFilterResult{NodeNames: &passed, FailedNodes: failed}
}

func (c *cluster) refuse(memory int64, name string) string {
	node := c.nodes[name]
	if node == nil {
		return unknown
	}
	used := c.used(name)
	for _, rule := range filterRules {
		if reason := rule(memory, node, used); reason != "" {
			return reason
		}
	}
	return ""
}

func (c *cluster) used(name string) *use {
	if found := c.uses[name]; found != nil {
		return found
	}
	return noUse
}

// scoreRule gives each node a number; which numbers are best is what its stretch says.
type scoreRule struct {
	score   func(c *cluster, app string, node *corev1.Node, used *use) float64
	stretch func(scores []float64)
}

var scoreRules = []scoreRule{
	{points, between(0, 10)},
	{leastRequested, between(0, 1)},
	{evenZones, lowIsBest},
	{apartFromItself, lowIsBest},
	{newerHardware, between(0, 1)},
}

func points(_ *cluster, _ string, node *corev1.Node, _ *use) float64 {
	number, err := strconv.Atoi(node.Labels["example.com/points"])
	if err != nil {
		return 0
	}
	return float64(number)
}

func leastRequested(_ *cluster, _ string, node *corev1.Node, used *use) float64 {
	there := float64(node.Status.Allocatable.Cpu().MilliValue())
	return (there - float64(used.milliCPU)) / there
}

func evenZones(c *cluster, _ string, node *corev1.Node, _ *use) float64 {
	zone, known := node.Labels[zoneLabel]
	if !known {
		return -1
	}
	return float64(c.zones[zone])
}

func apartFromItself(_ *cluster, app string, _ *corev1.Node, used *use) float64 {
	return float64(used.apps[app])
}

func newerHardware(_ *cluster, _ string, node *corev1.Node, _ *use) float64 {
	if node.Labels["example.com/label-05"] == "value-0" {
		return 1
	}
	return 0
}

// between brings scores of a known range to 0 to 1.
func between(low, high float64) func([]float64) {
	return func(scores []float64) {
		for i, score := range scores {
			scores[i] = (min(max(score, low), high) - low) / (high - low)
		}
	}
}

// lowIsBest stretches scores over 0 to 1, the lowest at the top; all of them in the middle where they are equal.
func lowIsBest(scores []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, score := range scores {
		low, high = min(low, score), max(high, score)
	}
	for i, score := range scores {
		if high > low {
			scores[i] = (high - score) / (high - low)
		} else {
			scores[i] = 0.5
		}
	}
}

// Prioritize gives each node the mean of the score rules.
func (c *cluster) Prioritize(args *extenderv1.ExtenderArgs) extenderv1.HostPriorityList {
	if args.Pod == nil || args.NodeNames == nil {
		return extenderv1.HostPriorityList{}
	}
	names := *args.NodeNames
	app := args.Pod.Labels["app"]
	totals, scores := make([]float64, len(names)), make([]float64, len(names))
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, rule := range scoreRules {
		for i, name := range names {
			scores[i] = 0
			if node := c.nodes[name]; node != nil {
				scores[i] = rule.score(c, app, node, c.used(name))
			}
		}
		rule.stretch(scores)
		for i, score := range scores {
			totals[i] += score
		}
	}
	found := make(extenderv1.HostPriorityList, len(names))
	for i, name := range names {
		share := totals[i] / float64(len(scoreRules))
		found[i] = extenderv1.HostPriority{Host: name, Score: int64(math.Round(share * float64(extenderv1.MaxExtenderPriority)))}
	}
	return found
}
