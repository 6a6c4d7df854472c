package uml

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What ptrace is asked for by number, and the name of the extended registers.
const (
	getRegisterSet = 0x4204 // PTRACE_GETREGSET
	setRegisterSet = 0x4205 // PTRACE_SETREGSET
	extended       = 0x202  // NT_X86_XSTATE
)

// Offsets in the kernel's struct seccomp_data.
const (
	atSystemCall = 0
	atArguments  = 16
)

// plainRegisters denies the calling thread, and all that it starts, the extended
// registers (AVX) of a process that it traces. The kernel asks once whether it may
// have them, and else does with the older request: it copies the registers at each
// system call and page fault of what runs inside, and the host maps and unmaps memory
// for each copy of the extended ones, which is a quarter of all its time. What runs
// inside must not use them then, see careful: a page fault clears them (TestSystem,
// "copies"). On other machines than amd64 there is no such thing.
func plainRegisters() error {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	answer := func(with uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
	}
	filter := []unix.SockFilter{
		load(atSystemCall), unless(unix.SYS_PTRACE, 6),
		load(atArguments), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: getRegisterSet, Jt: 1}, unless(setRegisterSet, 3),
		load(atArguments + 2*8), unless(extended, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
