package golden_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const deploy = "../deploy"

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// podOf reads a manifest strictly: a field that the API does not have fails.
func podOf(t *testing.T, name string) (spec corev1.PodTemplateSpec, selects map[string]string) {
	t.Helper()
	text := []byte(readDeploy(t, name))
	var err error
	switch name {
	case "job.yaml":
		var j batchv1.Job
		err = yaml.UnmarshalStrict(text, &j)
		if j.Kind != "Job" || j.APIVersion != "batch/v1" || j.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%s: %s %s, restart policy %q", name, j.APIVersion, j.Kind, j.Spec.Template.Spec.RestartPolicy)
		}
		spec = j.Spec.Template
	default:
		var d appsv1.DaemonSet
		err = yaml.UnmarshalStrict(text, &d)
		if d.Kind != "DaemonSet" || d.APIVersion != "apps/v1" || d.Spec.Selector == nil {
			t.Fatalf("%s: %s %s without a selector", name, d.APIVersion, d.Kind)
		}
		spec, selects = d.Spec.Template, d.Spec.Selector.MatchLabels
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return spec, selects
}

func TestDeployManifests(t *testing.T) {
	for _, name := range []string{"job.yaml", "daemonset.yaml"} {
		pod, selects := podOf(t, name)
		for key, value := range selects {
			if pod.Labels[key] != value {
				t.Errorf("%s selects %s=%s, which its pods do not have", name, key, value)
			}
		}
		if !pod.Spec.HostNetwork || len(pod.Spec.Containers) != 1 {
			t.Fatalf("%s: host network %v, %d containers", name, pod.Spec.HostNetwork, len(pod.Spec.Containers))
		}
		c := pod.Spec.Containers[0]
		checkPrivileges(t, name, c)
		checkMounts(t, name, pod.Spec, c)
	}
}

// Each capability is said what it is for; there is nothing beyond.
func checkPrivileges(t *testing.T, name string, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || s.Privileged != nil && *s.Privileged || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil {
		t.Fatalf("%s: security context %+v", name, s)
	}
	if !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%s drops %v, not ALL", name, s.Capabilities.Drop)
	}
	want := []corev1.Capability{"NET_ADMIN", "NET_RAW", "SYS_CHROOT", "SYS_ADMIN"}
	if !slices.Equal(s.Capabilities.Add, want) {
		t.Errorf("%s adds %v, want %v", name, s.Capabilities.Add, want)
	}
	text := readDeploy(t, name)
	for _, c := range s.Capabilities.Add {
		if !regexp.MustCompile(fmt.Sprintf(`- %s +# \w+`, c)).MatchString(text) {
			t.Errorf("%s does not say what %s is for", name, c)
		}
	}
}

// The host's file system is read-only but for two places.
func checkMounts(t *testing.T, name string, pod corev1.PodSpec, c corev1.Container) {
	t.Helper()
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	var writable []string
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s mounts %s, which is no volume", name, m.Name)
		}
		delete(volumes, m.Name)
		if !m.ReadOnly {
			writable = append(writable, m.MountPath)
		}
	}
	if len(volumes) > 0 {
		t.Errorf("%s: volumes that nothing mounts: %v", name, slices.Sorted(maps.Keys(volumes)))
	}
	if want := []string{"/host/var/lib/svcc", "/host/run/xtables.lock"}; !slices.Equal(writable, want) {
		t.Errorf("%s can write %v, want %v", name, writable, want)
	}
}

// The units' settings are known to systemd, and what they order exists.
func TestDeployUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(deploy, "svcc*.*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v; want four units", files, err)
	}
	args := []string{"verify", "--man=no"}
	for _, file := range files {
		name := filepath.Base(file)
		text := strings.ReplaceAll(readDeploy(t, name), "/usr/local/bin/svcc ", "/bin/true ")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, filepath.Join(dir, name))
	}
	if err := os.WriteFile(filepath.Join(dir, "firewalld.service"), []byte("[Service]\nExecStart=/bin/true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(analyze, args...).CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
}
