// Command types_table prints, as JSON, how Kubernetes' own Go types read and write the kinds that
// the rehearsal normalises: which fields there are, which vanish when empty, which are pointers.
// OpenAPI does not say the last two.
//
//	go run . > ../types.json
//
// A field is "name": [type, flags]; flags: o = omitted when empty, z = omitted when zero (structs
// too), p = pointer (kept when it points to an empty value). A type is string, bool, int, float,
// bytes, quantity, int-or-string, time, any, a struct's name, []T or {}T.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	devices "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type kind struct {
	apiVersion string
	object     any
	cluster    bool
}

var kinds = []kind{
	{"v1", core.Namespace{}, true},
	{"v1", core.ServiceAccount{}, false},
	{"v1", core.ConfigMap{}, false},
	{"v1", core.Secret{}, false},
	{"v1", core.Service{}, false},
	{"v1", core.ResourceQuota{}, false},
	{"v1", core.LimitRange{}, false},
	{"v1", core.Pod{}, false},
	{"v1", core.PersistentVolume{}, true},
	{"v1", core.PersistentVolumeClaim{}, false},
	{"apps/v1", apps.Deployment{}, false},
	{"apps/v1", apps.DaemonSet{}, false},
	{"apps/v1", apps.StatefulSet{}, false},
	{"apps/v1", apps.ReplicaSet{}, false},
	{"batch/v1", batch.Job{}, false},
	{"batch/v1", batch.CronJob{}, false},
	{"rbac.authorization.k8s.io/v1", rbac.Role{}, false},
	{"rbac.authorization.k8s.io/v1", rbac.RoleBinding{}, false},
	{"rbac.authorization.k8s.io/v1", rbac.ClusterRole{}, true},
	{"rbac.authorization.k8s.io/v1", rbac.ClusterRoleBinding{}, true},
	{"scheduling.k8s.io/v1", scheduling.PriorityClass{}, true},
	{"node.k8s.io/v1", node.RuntimeClass{}, true},
	{"policy/v1", policy.PodDisruptionBudget{}, false},
	{"admissionregistration.k8s.io/v1", admission.ValidatingAdmissionPolicy{}, true},
	{"admissionregistration.k8s.io/v1", admission.ValidatingAdmissionPolicyBinding{}, true},
	{"admissionregistration.k8s.io/v1", admission.ValidatingWebhookConfiguration{}, true},
	{"admissionregistration.k8s.io/v1", admission.MutatingWebhookConfiguration{}, true},
	{"apiextensions.k8s.io/v1", extensions.CustomResourceDefinition{}, true},
	{"networking.k8s.io/v1", networking.NetworkPolicy{}, false},
	{"networking.k8s.io/v1", networking.Ingress{}, false},
	{"storage.k8s.io/v1", storage.StorageClass{}, true},
	{"autoscaling/v2", autoscaling.HorizontalPodAutoscaler{}, false},
	{"resource.k8s.io/v1", devices.DeviceClass{}, true},
	{"resource.k8s.io/v1", devices.ResourceClaimTemplate{}, false},
	{"resource.k8s.io/v1", devices.ResourceClaim{}, false},
}

var types = map[string]map[string][2]string{}

func main() {
	table := map[string]any{}
	for _, k := range kinds {
		t := reflect.TypeOf(k.object)
		scope := "namespaced"
		if k.cluster {
			scope = "cluster"
		}
		table[k.apiVersion+"/"+t.Name()] = [2]string{describe(t), scope}
	}
	out, err := json.Marshal(map[string]any{
		"source": "k8s.io/api, k8s.io/apiextensions-apiserver v0.36.2",
		"kinds":  table,
		"types":  types,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	text := strings.ReplaceAll(string(out), "},\"", "},\n\"")
	fmt.Println(text)
}

func describe(t reflect.Type) string {
	switch t {
	case reflect.TypeOf(resource.Quantity{}):
		return "quantity"
	case reflect.TypeOf(intstr.IntOrString{}):
		return "int-or-string"
	case reflect.TypeOf(meta.Time{}), reflect.TypeOf(meta.MicroTime{}):
		return "time"
	case reflect.TypeOf(meta.Duration{}):
		return "string"
	case reflect.TypeOf(meta.FieldsV1{}), reflect.TypeOf(runtime.RawExtension{}),
		reflect.TypeOf(extensions.JSON{}):
		return "any"
	case reflect.TypeOf(extensions.JSONSchemaPropsOrArray{}),
		reflect.TypeOf(extensions.JSONSchemaPropsOrBool{}),
		reflect.TypeOf(extensions.JSONSchemaPropsOrStringArray{}):
		describe(reflect.TypeOf(extensions.JSONSchemaProps{}))
		return "schema-or-other"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "float"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + describe(t.Elem())
	case reflect.Map:
		return "{}" + describe(t.Elem())
	case reflect.Interface:
		return "any"
	case reflect.Struct:
		parts := strings.Split(t.PkgPath(), "/")
		name := parts[len(parts)-2] + "." + t.Name()
		if _, known := types[name]; !known {
			fields := map[string][2]string{}
			types[name] = fields
			collect(t, fields)
		}
		return name
	}
	panic(t.String())
}

func collect(t reflect.Type, fields map[string][2]string) {
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		if tag == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			collect(inner, fields)
			continue
		}
		flags := ""
		if strings.Contains(options, "omitempty") {
			flags += "o"
		}
		if strings.Contains(options, "omitzero") {
			flags += "z"
		}
		if field.Type.Kind() == reflect.Pointer {
			flags += "p"
		}
		fields[tag] = [2]string{describe(field.Type), flags}
	}
}
