//go:build tools

// Names mig-parted, so that go.sum fixes the default config which the tests read from the module's
// files.
package crosscheck

import _ "github.com/NVIDIA/mig-parted/api/spec/v1"
