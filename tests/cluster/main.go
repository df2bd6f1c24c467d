// SPDX-License-Identifier: Apache-2.0

// One program for every part of a one-node cluster: the name that it is called
// by (a link to it) says which part it is. One link instead of eight takes an
// eighth of the time and of the space.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	containerd "github.com/containerd/containerd/v2/cmd/containerd/command"
	ctr "github.com/containerd/containerd/v2/cmd/ctr/app"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	part := filepath.Base(os.Args[0])
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "containerd":
		end(containerd.App().Run(os.Args))
	case "ctr":
		end(ctr.New().Run(os.Args))
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(manager.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kubelet":
		run(kubelet.NewKubeletCommand(context.Background()))
	case "kubectl":
		run(kubectl.NewDefaultKubectlCommand())
	default:
		end(fmt.Errorf("%s: no such part", part))
	}
}

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
