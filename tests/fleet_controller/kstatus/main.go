// Command kstatus prints, as a JSON array, what kstatus makes of each object of the JSON array on
// standard input: Current, InProgress, Failed, Terminating.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		log.Fatal(err)
	}
	found := []string{}
	for _, raw := range objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		found = append(found, result.Status.String())
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}
