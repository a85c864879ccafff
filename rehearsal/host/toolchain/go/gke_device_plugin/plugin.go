package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource      = "nvidia.com/gpu"
	endpoint      = "nvidiaGPU.sock"
	hostDriver    = "/home/kubernetes/bin/nvidia"
	insideDriver  = "/usr/local/nvidia"
	socketPoll    = 250 * time.Millisecond
	healthWait    = 5000
	defaultXIDs   = "48"
	registerLimit = 5 * time.Second
	retryRegister = time.Second
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	config  gpuConfig
	mutex   sync.Mutex
	devices []device
	// changed is closed, and replaced, whenever a device's health changes.
	changed chan struct{}
	// ended is closed when the plugin stops.
	ended chan struct{}
}

func newPlugin(config gpuConfig, devices []device) *plugin {
	return &plugin{
		config: config, devices: devices,
		changed: make(chan struct{}), ended: make(chan struct{}),
	}
}

// serve offers the devices until told to stop, and offers them again whenever the kubelet's socket,
// or ours, is created again.
func (p *plugin) serve(directory string, stop <-chan os.Signal) error {
	defer close(p.ended)
	for {
		server, err := p.listen(filepath.Join(directory, endpoint))
		if err != nil {
			return err
		}
		kubelet := filepath.Join(directory, "kubelet.sock")
		registered := identity(kubelet)
		if err := register(kubelet); err != nil {
			log.Printf("cannot register with the kubelet, trying again: %v", err)
			registered = "none"
		} else {
			log.Printf("registered %s with %d devices", resource, len(p.devices))
		}
		again := p.watch(directory, registered, stop)
		server.Stop()
		if !again {
			return nil
		}
	}
}

// watch returns true when it is time to register again, false when told to stop.
func (p *plugin) watch(directory, registered string, stop <-chan os.Signal) bool {
	own := identity(filepath.Join(directory, endpoint))
	kubelet := filepath.Join(directory, "kubelet.sock")
	pause := socketPoll
	if registered == "none" {
		pause = retryRegister
	}
	for {
		select {
		case <-stop:
			return false
		case <-time.After(pause):
		}
		now := identity(kubelet)
		if now != "" && now != registered {
			return true
		}
		if identity(filepath.Join(directory, endpoint)) != own {
			return true
		}
	}
}

// identity tells one socket file from another at the same path; "" if there is none.
func identity(path string) string {
	var about syscall.Stat_t
	if err := syscall.Stat(path, &about); err != nil {
		return ""
	}
	return fmt.Sprint(about.Ino, about.Mtim)
}

func (p *plugin) listen(socket string) (*grpc.Server, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("failed to remove the old plugin socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("failed to listen for the kubelet: %w", err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	return server, nil
}

func register(kubelet string) error {
	connection, err := grpc.NewClient(
		"unix://"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), registerLimit)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     endpoint,
		ResourceName: resource,
		Options:      &api.DevicePluginOptions{},
	})
	return err
}

func (p *plugin) GetDevicePluginOptions(
	context.Context, *api.Empty,
) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		p.mutex.Lock()
		changed := p.changed
		answer := &api.ListAndWatchResponse{}
		for _, one := range p.devices {
			health := api.Healthy
			if !one.healthy {
				health = api.Unhealthy
			}
			answer.Devices = append(answer.Devices, &api.Device{ID: one.id, Health: health})
		}
		p.mutex.Unlock()
		if err := stream.Send(answer); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-p.ended:
			return nil
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *plugin) Allocate(
	_ context.Context, request *api.AllocateRequest,
) (*api.AllocateResponse, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		if err := p.allowed(len(container.DevicesIds)); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		var wanted []device
		for _, id := range container.DevicesIds {
			one, err := p.healthy(id)
			if err != nil {
				return nil, status.Error(codes.InvalidArgument, err.Error())
			}
			wanted = append(wanted, one)
		}
		given := &api.ContainerAllocateResponse{
			Envs: p.environment(wanted),
			Mounts: []*api.Mount{
				{ContainerPath: insideDriver, HostPath: hostDriver, ReadOnly: true},
			},
		}
		files, err := deviceFiles(wanted)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		for _, file := range files {
			given.Devices = append(given.Devices,
				&api.DeviceSpec{ContainerPath: file, HostPath: file, Permissions: "mrw"})
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}

// allowed refuses requests for more than one share: two shares of one device are no more than one.
func (p *plugin) allowed(count int) error {
	if count < 2 || len(p.devices) == 0 || !p.devices[0].sharesDevice {
		return nil
	}
	strategy := p.config.GPUSharingConfig.GPUSharingStrategy
	if strategy == timeSharing {
		return errors.New("invalid request for sharing GPU (time-sharing), " +
			"at most 1 nvidia.com/gpu can be requested on GPU nodes")
	}
	for _, one := range p.devices {
		if physical(one.id) != physical(p.devices[0].id) {
			return errors.New("invalid request for sharing GPU (MPS), " +
				"at most 1 nvidia.com/gpu can be requested on multi-GPU nodes")
		}
	}
	return nil
}

func (p *plugin) healthy(id string) (device, error) {
	for _, one := range p.devices {
		if one.id == id {
			if !one.healthy {
				return one, fmt.Errorf("invalid allocation request with unhealthy device %s", id)
			}
			return one, nil
		}
	}
	return device{}, fmt.Errorf("invalid allocation request with non-existing device %s", id)
}

// environment holds the limits of an MPS client, computed from the first GPU's memory even where
// that is more than a partition has.
func (p *plugin) environment(wanted []device) map[string]string {
	known := map[string]string{}
	sharing := p.config.GPUSharingConfig
	if sharing.GPUSharingStrategy == mps && sharing.MaxSharedClientsPerGPU > 0 {
		clients := sharing.MaxSharedClientsPerGPU
		limit := uint64(len(wanted)) * p.devices[0].memoryMiB / uint64(clients)
		known["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = strconv.Itoa(len(wanted) * 100 / clients)
		known["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = fmt.Sprintf("0=%dM", limit)
	}
	return known
}

// watchHealth marks devices unhealthy, for good, when the driver reports a critical XID for them.
func (p *plugin) watchHealth(gpus []nvml.Device) {
	critical := map[uint64]bool{}
	for _, text := range strings.Split(defaultXIDs+","+os.Getenv("XID_CONFIG"), ",") {
		if xid, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
			critical[xid] = true
		}
	}
	set, ret := nvml.EventSetCreate()
	if ret != nvml.SUCCESS {
		log.Printf("no health checks: %v", ret)
		return
	}
	indexes := map[string]int{}
	for i, gpu := range gpus {
		uuid, _ := gpu.GetUUID()
		indexes[uuid] = i
		if ret := gpu.RegisterEvents(nvml.EventTypeXidCriticalError, set); ret != nvml.SUCCESS {
			log.Printf("no health checks of GPU %d: %v", i, ret)
		}
	}
	for {
		event, ret := set.Wait(healthWait)
		switch {
		case ret == nvml.ERROR_TIMEOUT:
		case ret != nvml.SUCCESS:
			log.Printf("waiting for health events: %v", ret)
			time.Sleep(retryRegister)
		case event.EventType == nvml.EventTypeXidCriticalError && critical[event.EventData]:
			uuid, _ := event.Device.GetUUID()
			if index, known := indexes[uuid]; known {
				p.fail(index, event.GpuInstanceId, event.EventData)
			}
		default:
			log.Printf("skipping XID %d", event.EventData)
		}
	}
}

func (p *plugin) fail(gpu int, gpuInstance uint32, xid uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i := range p.devices {
		one := &p.devices[i]
		concerned := one.gpu == gpu && (gpuInstance == wholeGPU || one.gpuInstance == gpuInstance)
		if concerned && one.healthy {
			log.Printf("XID %d: %s is unhealthy", xid, one.id)
			one.healthy = false
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}
