// Reads device-plugin configs as NVIDIA's device plugin does, and prints per file what it made of
// them, as JSON: Error of its own parser, which ignores keys that it does not know; Unknown from a
// strict reading of the same types; Config as understood.
package main

import (
	"encoding/json"
	"log"
	"os"

	v1 "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

type verdict struct {
	Error, Unknown string
	Config         *v1.Config
}

func judge(file string) (found verdict) {
	app := &cli.App{
		Flags: []cli.Flag{&cli.StringFlag{Name: "config-file"}},
		Action: func(c *cli.Context) (err error) {
			found.Config, err = v1.NewConfig(c, nil)
			return err
		},
	}
	if err := app.Run([]string{"check", "--config-file", file}); err != nil {
		found.Error = err.Error()
	}
	if text, err := os.ReadFile(file); err != nil {
		found.Unknown = err.Error()
	} else if err := yaml.UnmarshalStrict(text, &v1.Config{}); err != nil {
		found.Unknown = err.Error()
	}
	return found
}

func main() {
	verdicts := map[string]verdict{}
	for _, file := range os.Args[1:] {
		verdicts[file] = judge(file)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		log.Fatal(err)
	}
}
