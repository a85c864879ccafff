package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// initPipe is where a simulated node takes requests to reboot (rehearsal/cluster/kubelet/nodes).
const initPipe = "/run/initctl"

// size is one gpu_partition_size: the id of NVML's profile, and how many make a whole GPU.
type size struct {
	profileID uint32
	perGPU    int
}

// sizes does not know GPU models, as GKE's table does not: a size of another model is applied as
// its profile id says on this one.
var sizes = map[string]size{
	"1g.5gb": {19, 7}, "2g.10gb": {14, 3}, "3g.20gb": {9, 2}, "4g.20gb": {5, 1}, "7g.40gb": {0, 1},
	"1g.10gb": {19, 7}, "1g.20gb": {15, 4}, "2g.20gb": {14, 3}, "3g.40gb": {9, 2},
	"4g.40gb": {5, 1}, "7g.80gb": {0, 1},
	"1g.18gb": {19, 7}, "1g.35gb": {15, 4}, "2g.35gb": {14, 3}, "3g.71gb": {9, 2},
	"4g.71gb": {5, 1}, "7g.141gb": {0, 1},
	"1g.23gb": {19, 7}, "1g.45gb": {15, 4}, "2g.45gb": {14, 3}, "3g.90gb": {9, 2},
	"4g.90gb": {5, 1}, "7g.180gb": {0, 1},
	"1g.47gb": {15, 4}, "2g.47gb": {14, 3}, "3g.93gb": {9, 2},
	"4g.93gb": {5, 1}, "7g.186gb": {0, 1},
	"1g.24gb": {14, 4}, "1g.24gb+me": {21, 1}, "1g.24gb+gfx": {47, 4},
	"1g.24gb+me.all": {65, 1}, "1g.24gb-me": {67, 4},
	"2g.48gb": {5, 2}, "2g.48gb+gfx": {35, 2}, "2g.48gb+me.all": {64, 1},
	"2g.48gb-me": {66, 2}, "4g.96gb": {0, 1}, "4g.96gb+gfx": {32, 1},
}

// notServed are sizes that the partitioner cuts and the device plugin refuses.
var notServed = map[string]bool{"4g.20gb": true, "4g.40gb": true}

// fault is a rehearsed defect of the partitioner: one GPU gets another size, which this program
// does not notice.
type fault struct {
	gpu  int
	size size
}

// injectedFault reads GKE_FAULT_WRONG_LAYOUT, for example "3=1g.10gb".
func injectedFault() (*fault, error) {
	text := os.Getenv("GKE_FAULT_WRONG_LAYOUT")
	if text == "" {
		return nil, nil
	}
	gpu, name, _ := strings.Cut(text, "=")
	index, err := strconv.Atoi(gpu)
	wrong, known := sizes[name]
	if err != nil || !known {
		return nil, fmt.Errorf(
			"GKE_FAULT_WRONG_LAYOUT=%q is not understood; write GPU=SIZE, for example 3=1g.10gb",
			text)
	}
	return &fault{index, wrong}, nil
}

// partition cuts all GPUs into instances of one size, unless they have as many instances as that
// already.
func partition(gpus []nvml.Device, name string, wrong *fault) error {
	if name == "" || len(gpus) == 0 {
		log.Print("no GPU partitions are required")
		return nil
	}
	wanted, known := sizes[name]
	if !known {
		return fmt.Errorf("%s is not a valid GPU partition size", name)
	}
	if err := enableMIG(gpus); err != nil {
		return err
	}
	sizeOf := func(gpu int) size {
		if wrong != nil && wrong.gpu == gpu {
			return wrong.size
		}
		return wanted
	}
	done, err := alreadyPartitioned(gpus, sizeOf)
	if err != nil || done {
		return err
	}
	for i, gpu := range gpus {
		if err := clear(gpu); err != nil {
			return fmt.Errorf("failed to clean up the GPU partitions of GPU %d: %w", i, err)
		}
	}
	for i, gpu := range gpus {
		for range sizeOf(i).perGPU {
			if err := cut(gpu, sizeOf(i).profileID); err != nil {
				return fmt.Errorf(
					"failed to create GPU partitions of size %s on GPU %d: %w", name, i, err)
			}
		}
	}
	log.Printf("partitioned %d GPUs into %s", len(gpus), name)
	return nil
}

// migTypes are the GPUs that the partitioner knows, by the beginning of their names, and whether it
// reboots the node to switch them. Source: partition_gpu.go, checkGpuType and main.
var migTypes = []struct {
	name    string
	reboots bool
}{
	{"NVIDIA GB200", false},
	{"NVIDIA B200", false},
	{"NVIDIA H200", false},
	{"NVIDIA H100 80GB HBM3", false},
	{"NVIDIA A100-SXM4-40GB", true},
	{"NVIDIA A100-SXM4-80GB", true},
	{"NVIDIA RTX PRO 6000", false},
}

// enableMIG does what GKE's partitioner does: it reads the mode of GPU 0 only, switches all GPUs,
// passes over one that is in use, and reboots the node by the type of GPU 0, not by what the driver
// says. After the reboot GPU 0 counts for all, again.
func enableMIG(gpus []nvml.Device) error {
	current, _, ret := gpus[0].GetMigMode()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("failed to check if MIG mode is enabled: %v", ret)
	}
	if current == nvml.DEVICE_MIG_ENABLE {
		return nil
	}
	log.Print("MIG mode is not enabled, enabling it now")
	reboots, err := switchReboots(gpus[0])
	if err != nil {
		return err
	}
	for i, gpu := range gpus {
		if _, ret := gpu.SetMigMode(nvml.DEVICE_MIG_ENABLE); ret != nvml.SUCCESS {
			return fmt.Errorf("failed to enable MIG mode on GPU %d: %v", i, ret)
		}
	}
	if reboots {
		log.Print("rebooting the node to enable MIG mode")
		if err := reboot(); err != nil {
			log.Printf("failed to trigger node reboot after enabling MIG mode: %v", err)
		}
		return errReboot
	}
	return nil
}

func switchReboots(gpu nvml.Device) (bool, error) {
	name, ret := gpu.GetName()
	if ret != nvml.SUCCESS {
		return false, fmt.Errorf("failed to check the GPU type: %v", ret)
	}
	for _, known := range migTypes {
		if strings.HasPrefix(name, known.name) {
			return known.reboots, nil
		}
	}
	return false, fmt.Errorf("%s is not a GPU type that the partitioner knows MIG of", name)
}

// reboot asks the simulated node's init. GKE's partitioner shares the node's process namespace and
// sends systemd SIGRTMIN+5; here process 1 is this machine's own.
func reboot() error {
	init, err := os.OpenFile(initPipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer init.Close()
	_, err = init.WriteString("reboot\n")
	return err
}

// alreadyPartitioned compares numbers, and that all instances of a GPU are of one profile; not of
// which.
func alreadyPartitioned(gpus []nvml.Device, sizeOf func(int) size) (bool, error) {
	for i, gpu := range gpus {
		found, err := instances(gpu)
		if err != nil {
			return false, err
		}
		if len(found) != sizeOf(i).perGPU {
			return false, nil
		}
		for _, instance := range found {
			if instance.profileID != found[0].profileID {
				return false, nil
			}
		}
	}
	log.Print("current number of partitions matches the expected one")
	return true, nil
}

type instance struct {
	nvml.GpuInstance
	id, profileID, slices uint32
}

// instances are all GPU instances of a GPU.
func instances(gpu nvml.Device) ([]instance, error) {
	var all []instance
	for profile := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := gpu.GetGpuInstanceProfileInfo(profile)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("failed to get GPU instance profile: %v", ret)
		}
		found, ret := gpu.GetGpuInstances(&info)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("failed to list GPU instances: %v", ret)
		}
		for _, one := range found {
			about, ret := one.GetInfo()
			if ret != nvml.SUCCESS {
				return nil, fmt.Errorf("failed to read a GPU instance: %v", ret)
			}
			all = append(all, instance{one, about.Id, about.ProfileId, info.SliceCount})
		}
	}
	return all, nil
}

func clear(gpu nvml.Device) error {
	found, err := instances(gpu)
	if err != nil {
		return err
	}
	for _, one := range found {
		destroyAll := func(info nvml.ComputeInstanceProfileInfo) error {
			computes, ret := one.GetComputeInstances(&info)
			for i := 0; ret == nvml.SUCCESS && i < len(computes); i++ {
				ret = computes[i].Destroy()
			}
			if ret != nvml.SUCCESS {
				return fmt.Errorf("destroying compute instances: %v", ret)
			}
			return nil
		}
		if err := eachComputeProfile(one.GpuInstance, destroyAll); err != nil {
			return err
		}
		if ret := one.Destroy(); ret != nvml.SUCCESS {
			return fmt.Errorf("destroying GPU instance %d: %v", one.id, ret)
		}
	}
	return nil
}

// cut makes one GPU instance and the compute instance that fills it.
func cut(gpu nvml.Device, profileID uint32) error {
	made, ret := gpu.CreateGpuInstance(&nvml.GpuInstanceProfileInfo{Id: profileID})
	if ret != nvml.SUCCESS {
		return fmt.Errorf("creating GPU instance of profile %d: %v", profileID, ret)
	}
	var largest nvml.ComputeInstanceProfileInfo
	err := eachComputeProfile(made, func(info nvml.ComputeInstanceProfileInfo) error {
		if info.SliceCount > largest.SliceCount {
			largest = info
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, ret := made.CreateComputeInstance(&largest); ret != nvml.SUCCESS {
		return fmt.Errorf("creating compute instance: %v", ret)
	}
	return nil
}

func eachComputeProfile(of nvml.GpuInstance, do func(nvml.ComputeInstanceProfileInfo) error) error {
	for profile := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := of.GetComputeInstanceProfileInfo(
			profile, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if ret != nvml.SUCCESS {
			return fmt.Errorf("reading compute instance profile %d: %v", profile, ret)
		}
		if err := do(info); err != nil {
			return err
		}
	}
	return nil
}
