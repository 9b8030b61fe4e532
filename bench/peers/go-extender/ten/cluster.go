package main

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"
)

const zoneLabel = "topology.kubernetes.io/zone"

// use is what pods on a node need together.
type use struct {
	milliCPU, memory int64
	pods             int
	apps             map[string]int
}

// placed is what one pod counts for, and where.
type placed struct {
	node, app        string
	milliCPU, memory int64
}

// cluster is what the rules look at, kept up to date by informers.
type cluster struct {
	mu    sync.RWMutex
	nodes map[string]*corev1.Node
	uses  map[string]*use
	pods  map[types.UID]placed
	zones map[string]int
}

// follow returns when everything that is there has been seen.
func follow(ctx context.Context, client kubernetes.Interface) (*cluster, error) {
	c := &cluster{
		nodes: map[string]*corev1.Node{},
		uses:  map[string]*use{},
		pods:  map[types.UID]placed{},
		zones: map[string]int{},
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(seen any) { c.putNode(seen.(*corev1.Node)) },
		UpdateFunc: func(_, seen any) { c.putNode(seen.(*corev1.Node)) },
		DeleteFunc: func(gone any) { c.dropNode(last[*corev1.Node](gone)) },
	})
	if err != nil {
		return nil, err
	}
	pods, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(seen any) { c.putPod(seen.(*corev1.Pod)) },
		UpdateFunc: func(_, seen any) { c.putPod(seen.(*corev1.Pod)) },
		DeleteFunc: func(gone any) { c.dropPod(last[*corev1.Pod](gone)) },
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, pods.HasSynced) {
		return nil, errors.New("the cluster was not seen as a whole")
	}
	return c, nil
}

// last is an object that was deleted, as it was seen last.
func last[T any](gone any) T {
	if unknown, ok := gone.(cache.DeletedFinalStateUnknown); ok {
		gone = unknown.Obj
	}
	return gone.(T)
}

func (c *cluster) putNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, now := c.zoneOf(node.Name), node.Labels[zoneLabel]
	c.nodes[node.Name] = node
	c.moveZone(node.Name, was, now)
}

func (c *cluster) dropNode(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveZone(node.Name, c.zoneOf(node.Name), "")
	delete(c.nodes, node.Name)
}

// moveZone counts the pods of a node for another zone.
func (c *cluster) moveZone(node, was, now string) {
	if use := c.uses[node]; use != nil && was != now {
		c.zones[was] -= use.pods
		c.zones[now] += use.pods
	}
}

func (c *cluster) zoneOf(node string) string {
	if known := c.nodes[node]; known != nil {
		return known.Labels[zoneLabel]
	}
	return ""
}

func (c *cluster) putPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(pod.UID)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.Spec.NodeName == "" || ended {
		return
	}
	needs := resource.PodRequests(pod, resource.PodResourcesOptions{})
	c.pods[pod.UID] = placed{pod.Spec.NodeName, pod.Labels["app"], needs.Cpu().MilliValue(), needs.Memory().Value()}
	c.count(c.pods[pod.UID], 1)
}

func (c *cluster) dropPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(pod.UID)
}

// take forgets a pod, if it was known.
func (c *cluster) take(uid types.UID) {
	if known, ok := c.pods[uid]; ok {
		c.count(known, -1)
		delete(c.pods, uid)
	}
}

// count adds a pod to the sums, or takes it out of them.
func (c *cluster) count(pod placed, times int) {
	sums := c.uses[pod.node]
	if sums == nil {
		sums = &use{apps: map[string]int{}}
		c.uses[pod.node] = sums
	}
	sums.milliCPU += int64(times) * pod.milliCPU
	sums.memory += int64(times) * pod.memory
	sums.pods += times
	sums.apps[pod.app] += times
	c.zones[c.zoneOf(pod.node)] += times
}
