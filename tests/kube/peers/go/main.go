// SPDX-License-Identifier: Apache-2.0

// peer client|server SOCKET: grpc-go, and Kubernetes' own messages, against kube/grpc.h.
// tests/kube/test_grpc_peers.py says what is expected of it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	pods "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Messages are bytes.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = raw{}

var input = bufio.NewReader(os.Stdin)

func must(what string, good bool) {
	if !good {
		fmt.Println("not so:", what)
		os.Exit(1)
	}
	fmt.Println("ok", what)
}

// As the kubelet dials.
func dial(socket string, options ...grpc.DialOption) *grpc.ClientConn {
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}))
	connection, err := grpc.NewClient("passthrough:///"+socket, options...)
	if err != nil {
		panic(err)
	}
	return connection
}

type client struct{ connection *grpc.ClientConn }

func (c client) ask(ctx context.Context, method string, request []byte) ([]byte, error) {
	var answer []byte
	err := c.connection.Invoke(ctx, "/t/"+method, &request, &answer, grpc.ForceCodecV2(raw{}))
	return answer, err
}

func (c client) stream(ctx context.Context, method, request string) grpc.ClientStream {
	stream, err := c.connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/t/"+method,
		grpc.ForceCodecV2(raw{}))
	bytes := []byte(request)
	if err != nil || stream.SendMsg(&bytes) != nil || stream.CloseSend() != nil {
		panic(err)
	}
	return stream
}

func (c client) unary(ctx context.Context) {
	answer, err := c.ask(ctx, "Echo", []byte("hello"))
	must("echo", err == nil && string(answer) == "hello")
	answer, err = c.ask(ctx, "Echo", nil)
	must("empty", err == nil && len(answer) == 0)
	most := bytes.Repeat([]byte("x"), 4<<20)
	answer, err = c.ask(ctx, "Echo", most)
	must("4 MiB", err == nil && bytes.Equal(answer, most))
	_, err = c.ask(ctx, "Echo", append(most, 'x'))
	must("too large", status.Code(err) == codes.ResourceExhausted)
	_, err = c.ask(ctx, "Refuse", []byte("9 100 % für 日本\n😀"))
	must("refused", status.Code(err) == codes.FailedPrecondition &&
		status.Convert(err).Message() == "100 % für 日本\n😀")
	_, err = c.ask(ctx, "Nowhere", nil)
	must("unknown", status.Code(err) == codes.Unimplemented)
	answer, err = c.ask(ctx, "Big", []byte("16777216"))
	good := err == nil && len(answer) == 16777216
	for i := 0; good && i < len(answer); i++ {
		good = answer[i] == byte(i*7)
	}
	must("big", good)
}

func (c client) times(ctx context.Context) {
	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	_, err := c.ask(short, "Wait", []byte("deadline"))
	stop()
	must("deadline", status.Code(err) == codes.DeadlineExceeded)
	cancelled, cancel := context.WithCancel(ctx)
	stream := c.stream(cancelled, "Wait", "cancel")
	_, err = c.ask(ctx, "Echo", nil)
	cancel()
	var answer []byte
	must("cancel", err == nil && status.Code(stream.RecvMsg(&answer)) == codes.Canceled)
}

func (c client) many(ctx context.Context) {
	var all sync.WaitGroup
	var lock sync.Mutex
	good := 0
	for i := range 1000 {
		all.Add(1)
		go func() {
			defer all.Done()
			request := strconv.Itoa(i)
			answer, err := c.ask(ctx, "Echo", []byte(request))
			if err == nil && string(answer) == request {
				lock.Lock()
				good++
				lock.Unlock()
			}
		}()
	}
	all.Wait()
	must("parallel", good == 1000)
}

func (c client) streams(ctx context.Context) {
	stream := c.stream(ctx, "Count", "1000")
	count := 0
	var answer []byte
	var err error
	for err = stream.RecvMsg(&answer); err == nil; err = stream.RecvMsg(&answer) {
		if string(answer) != strconv.Itoa(count) {
			break
		}
		count++
	}
	must("count", count == 1000 && err == io.EOF)
	watching, cancel := context.WithCancel(ctx)
	stream = c.stream(watching, "Watch", "")
	for range 3000 {
		if _, err = c.ask(ctx, "Push", nil); err != nil {
			break
		}
	}
	state, seen := 0, 0
	for err == nil && state < 3000 {
		if err = stream.RecvMsg(&answer); err == nil {
			state, _ = strconv.Atoi(string(answer[:bytes.IndexByte(answer, 0)]))
			seen++
		}
	}
	cancel()
	must("latest", state == 3000 && seen < 1000)
}

// Kubernetes' own messages, which ours must be.
func (c client) kubernetes(ctx context.Context) {
	devices := plugin.NewDevicePluginClient(c.connection)
	list, err := devices.ListAndWatch(ctx, &plugin.Empty{})
	if err != nil {
		panic(err)
	}
	got, err := list.Recv()
	must("devices", err == nil && proto.Equal(got, &plugin.ListAndWatchResponse{Devices: []*plugin.Device{
		{ID: "GPU-a::0", Health: plugin.Healthy, Topology: &plugin.TopologyInfo{Nodes: []*plugin.NUMANode{{ID: 1}}}},
		{ID: "GPU-a::1", Health: plugin.Unhealthy}}}))
	allocated, err := devices.Allocate(ctx, &plugin.AllocateRequest{
		ContainerRequests: []*plugin.ContainerAllocateRequest{{DevicesIds: []string{"GPU-a::1"}}}})
	must("allocated", err == nil && proto.Equal(allocated, &plugin.AllocateResponse{
		ContainerResponses: []*plugin.ContainerAllocateResponse{{
			Envs:        map[string]string{"IDS": "GPU-a::1"},
			Annotations: map[string]string{"note": "für"},
			Mounts:      []*plugin.Mount{{ContainerPath: "/in", HostPath: "/out", ReadOnly: true}},
			Devices:     []*plugin.DeviceSpec{{ContainerPath: "/dev/a", HostPath: "/dev/b", Permissions: "rw"}},
			CdiDevices:  []*plugin.CDIDevice{{Name: "mete.dev/gpu=a"}},
		}}}))
	for _, share := range []*string{nil, proto.String(""), proto.String("s")} {
		sent := &pods.ListPodResourcesResponse{PodResources: []*pods.PodResources{{
			Name: "pod", Namespace: "space",
			Containers: []*pods.ContainerResources{{
				Name:    "main",
				Devices: []*pods.ContainerDevices{{ResourceName: "mete.dev/gpu", DeviceIds: []string{"a", "b"}, Topology: &pods.TopologyInfo{Nodes: []*pods.NUMANode{{ID: -1}}}}},
				CpuIds:  []int64{1, 2, 300},
				Memory:  []*pods.ContainerMemory{{MemoryType: "memory", Size: 1 << 40}},
				DynamicResources: []*pods.DynamicResource{{ClaimName: "claim", ClaimNamespace: "space",
					ClaimResources: []*pods.ClaimResource{{DriverName: "d", PoolName: "p", DeviceName: "n", ShareId: share,
						CdiDevices: []*pods.CDIDevice{{Name: "x/y=z"}}}}}},
			}}}}}
		bytes, _ := proto.Marshal(sent)
		answer, err := c.ask(ctx, "Pods", bytes)
		back := &pods.ListPodResourcesResponse{}
		must("pods", err == nil && proto.Unmarshal(answer, back) == nil && proto.Equal(sent, back))
	}
}

func (c client) restart(ctx context.Context) {
	stream := c.stream(ctx, "Wait", "restart")
	_, err := c.ask(ctx, "Echo", nil)
	fmt.Println("restart it")
	var answer []byte
	must("goodbye", err == nil && status.Code(stream.RecvMsg(&answer)) == codes.Unavailable)
	input.ReadString('\n')
	var request, back = []byte("back"), []byte{}
	err = c.connection.Invoke(ctx, "/t/Echo", &request, &back, grpc.ForceCodecV2(raw{}), grpc.WaitForReady(true))
	must("back", err == nil && string(back) == "back")
}

func runClient(socket string) {
	ctx := context.Background()
	c := client{dial(socket)}
	c.unary(ctx)
	c.times(ctx)
	c.many(ctx)
	c.streams(ctx)
	c.kubernetes(ctx)
	// Without an authority of its own, as the kubelet dials DRA drivers.
	plain, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	answer, err := client{plain}.ask(ctx, "Echo", []byte("plain"))
	must("authority", err == nil && string(answer) == "plain")
	plain.Close()
	c.restart(ctx)
	fmt.Println("done")
}

type method func(ctx context.Context, request []byte) ([]byte, error)

func describe(name string, run method) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error,
		_ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		answer, err := run(ctx, request)
		return &answer, err
	}}
}

func runServer(socket string) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.MaxSendMsgSize(64<<20), grpc.MaxRecvMsgSize(8<<20))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "t", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		describe("Echo", func(_ context.Context, request []byte) ([]byte, error) { return request, nil }),
		describe("Refuse", func(_ context.Context, request []byte) ([]byte, error) {
			code, text, _ := strings.Cut(string(request), " ")
			number, _ := strconv.Atoi(code)
			return nil, status.Error(codes.Code(number), text)
		}),
		describe("Wait", func(ctx context.Context, request []byte) ([]byte, error) {
			fmt.Println("called", string(request))
			<-ctx.Done()
			fmt.Println("gone", string(request))
			return nil, ctx.Err()
		}),
		describe("Big", func(_ context.Context, request []byte) ([]byte, error) {
			size, _ := strconv.Atoi(string(request))
			return bytes.Repeat([]byte{1}, size), nil
		}),
	}}, struct{}{})
	go func() {
		input.ReadString('\n')
		server.Stop()
	}()
	fmt.Println("ready")
	server.Serve(listener)
}

func main() {
	if os.Args[1] == "client" {
		runClient(os.Args[2])
	} else {
		runServer(os.Args[2])
	}
}
