package e2e

// vendorArg makes the test program a vendor's COSI driver.
const vendorArg = "vendor-driver"

func vendorMain(args []string) int { return 0 }
