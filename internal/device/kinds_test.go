package device

import (
	"context"
	"slices"
	"testing"
)

func TestGraphics(t *testing.T) {
	f := newFixture(t)
	const intel, amd = bus + "0000:00:02.0", bus + "0000:00:03.0/0000:04:00.0"
	f.pci(intel, "8086", "46a6", "i915")
	f.pci(amd, "1002", "740f", "amdgpu")
	for _, c := range []struct{ hardware, name, number string }{
		{amd, "card0", "226:0"}, {amd, "renderD128", "226:128"}, {intel, "card1", "226:1"}, {intel, "renderD129", "226:129"},
	} {
		sys := c.hardware + "/drm/" + c.name
		f.device(sys, "drm", "dri/"+c.name, c.number)
		f.behind(sys, c.hardware)
	}
	f.dir("sys/devices/" + intel + "/drm/card1/card1-DP-1")
	f.to("sys/class/drm/card1-DP-1", "sys/devices/"+intel+"/drm/card1/card1-DP-1")
	f.device("virtual/kfd/kfd", "kfd", "kfd", "235:0")
	topology := "sys/devices/virtual/kfd/kfd/topology/nodes/"
	f.attrs(topology+"0", "properties", "cpu_cores_count 16\nsimd_count 0\ndrm_render_minor 0")
	f.attrs(topology+"1", "properties", "simd_count 440\ndrm_render_minor 128\nvendor_id 4098\nunique_id 1234567890123456789", "name", "aldebaran")

	same(t, summary(f.find("dri")), `
		dri pci-0000_00_02.0: /dev/dri/card1 /dev/dri/by-path/pci-0000:00:02.0-card</dev/dri/card1 /dev/dri/renderD129 /dev/dri/by-path/pci-0000:00:02.0-render</dev/dri/renderD129
		dri pci-0000_04_00.0: /dev/dri/card0 /dev/dri/by-path/pci-0000:04:00.0-card</dev/dri/card0 /dev/dri/renderD128 /dev/dri/by-path/pci-0000:04:00.0-render</dev/dri/renderD128
	`)
	kfd := f.find("kfd")
	same(t, summary(kfd), `
		kfd pci-0000_04_00.0: /dev/kfd /dev/dri/renderD128 /dev/dri/by-path/pci-0000:04:00.0-render</dev/dri/renderD128 /dev/dri/card0
	`)
	if a := kfd[0].Attributes; a[AttrDriver] != "amdgpu" || a[AttrVendor] != "1002" || a[AttrModel] != "aldebaran" || a[AttrUUID] != "112210f47de98115" {
		t.Errorf("attributes %v", a)
	}
	same(t, summary(f.find("/dev/dri/renderD*")), `
		dri pci-0000_00_02.0-render: /dev/dri/renderD129
		dri pci-0000_04_00.0-render: /dev/dri/renderD128
	`)
	same(t, summary(f.find("/dev/kfd")), "kfd kfd: /dev/kfd\n")
	same(t, summary(f.find("dri,driver=i915,vendor=8086,product=46A6")), summary(f.find("dri:0000:00:02.0")))
}

func TestUSB(t *testing.T) {
	f := newFixture(t)
	f.usb("1-1", 5, "0403", "6001", "FTDI", "FT232R USB UART", "A50285BI")
	f.usb("1-2", 3, "1A86", "7523", "", "USB Serial", "")
	f.usb("1-3.1", 4, "1a86", "7523", "", "USB Serial", "")
	hub := f.usb("1-3", 2, "05e3", "0608", "GL", "Hub", "")
	f.attrs("sys/devices/"+hub, "bDeviceClass", "09")

	same(t, summary(f.find("usb")), `
		usb usb-0403-6001-A50285BI: /dev/bus/usb/001/005
		usb usb-1a86-7523-port1-2: /dev/bus/usb/001/003
		usb usb-1a86-7523-port1-3.1: /dev/bus/usb/001/004
	`)
	for match, n := range map[string]int{
		"usb:0403:6001": 1, "usb:0403:6001:A50285BI": 1, "usb:0403:6001:other": 0, "usb:1a86:7523": 2, "usb:1A86:*": 2,
		"usb,port=1-3.1": 1, "usb:A50285BI": 1, "usb,model=*FT232R*": 1, "usb,vendor=0403,product=9999": 0,
	} {
		if found := f.find(match); len(found) != n {
			t.Errorf("%s finds %d, want %d:\n%s", match, len(found), n, summary(found))
		}
	}
}

func TestSerialAndVideo(t *testing.T) {
	f := newFixture(t)
	ftdi := f.usb("1-1", 5, "0403", "6001", "FTDI", "FT232R USB UART", "A50285BI")
	port := f.usbInterface(ftdi, "00", "ftdi_sio")
	f.device(port+"/ttyUSB0/tty/ttyUSB0", "tty", "ttyUSB0", "188:0")
	f.attrs("sys/devices/"+port+"/ttyUSB0", "port_number", "0")
	f.behind(port+"/ttyUSB0/tty/ttyUSB0", port+"/ttyUSB0")
	modem := f.usb("1-2", 6, "2341", "0043", "Arduino (www.arduino.cc)", "", "75330303")
	acm := f.usbInterface(modem, "00", "cdc_acm")
	f.device(acm+"/tty/ttyACM0", "tty", "ttyACM0", "166:0")
	f.to("dev/serial/by-id/usb-Arduino__www.arduino.cc__0043_75330303-if00", "dev/ttyACM0")
	f.device("pnp0/00:01/tty/ttyS0", "tty", "ttyS0", "4:64")
	f.attrs("sys/devices/pnp0/00:01/tty/ttyS0", "type", "4")
	f.device("platform/serial8250/tty/ttyS1", "tty", "ttyS1", "4:65")
	f.attrs("sys/devices/platform/serial8250/tty/ttyS1", "type", "0")
	f.device("virtual/tty/tty1", "tty", "tty1", "4:1")
	camera := f.usb("1-4", 7, "046d", "082d", "", "HD Pro Webcam C920", "ABC")
	video := f.usbInterface(camera, "00", "uvcvideo")
	for i, number := range []string{"81:0", "81:1"} {
		sys := video + "/video4linux/video" + number[3:]
		f.device(sys, "video4linux", "video"+number[3:], number)
		f.attrs("sys/devices/"+sys, "index", string(rune('0'+i)), "name", "HD Pro Webcam C920")
		f.behind(sys, video)
	}

	same(t, summary(f.find("serial")), `
		serial ttyS0: /dev/ttyS0
		serial usb-Arduino__www.arduino.cc__0043_75330303-if00: /dev/serial/by-id/usb-Arduino__www.arduino.cc__0043_75330303-if00</dev/ttyACM0 /dev/ttyACM0
		serial usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0: /dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0</dev/ttyUSB0 /dev/ttyUSB0
	`)
	same(t, summary(f.find("video")), `
		video usb-046d_HD_Pro_Webcam_C920_ABC-video-index0: /dev/v4l/by-id/usb-046d_HD_Pro_Webcam_C920_ABC-video-index0</dev/video0 /dev/video0
		video usb-046d_HD_Pro_Webcam_C920_ABC-video-index1: /dev/v4l/by-id/usb-046d_HD_Pro_Webcam_C920_ABC-video-index1</dev/video1 /dev/video1
	`)
	if d := f.find("serial:*FTDI*")[0]; d.Attributes[AttrDriver] != "ftdi_sio" || d.Attributes[AttrSerial] != "A50285BI" {
		t.Errorf("attributes %v", d.Attributes)
	}
	same(t, summary(f.find("/dev/serial/by-id/*Arduino*")),
		"serial usb-Arduino__www.arduino.cc__0043_75330303-if00: /dev/serial/by-id/usb-Arduino__www.arduino.cc__0043_75330303-if00</dev/ttyACM0\n")

	// The name does not depend on whether udev has made its link yet.
	before := summary(f.find("serial"))
	f.to("dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0", "dev/ttyUSB0")
	same(t, summary(f.find("serial")), before)

	all, err := f.host().List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	chars := slices.DeleteFunc(all, func(d Device) bool { return d.Kind != Char })
	same(t, summary(chars), "char tty1: /dev/tty1\nchar ttyS1: /dev/ttyS1\n")
}

func TestSound(t *testing.T) {
	f := newFixture(t)
	const hda = bus + "0000:00:1f.3"
	f.pci(hda, "8086", "51c8", "snd_hda_intel")
	f.attrs("sys/devices/"+hda+"/sound/card0", "id", "PCH", "number", "0")
	f.behind(hda+"/sound/card0", hda)
	f.to("sys/class/sound/card0", "sys/devices/"+hda+"/sound/card0")
	f.device(hda+"/sound/card0/controlC0", "sound", "snd/controlC0", "116:2")
	f.device(hda+"/sound/card0/pcmC0D0p", "sound", "snd/pcmC0D0p", "116:3")
	f.device(hda+"/sound/card0/pcmC0D0c", "sound", "snd/pcmC0D0c", "116:4")
	f.device("virtual/sound/timer", "sound", "snd/timer", "116:33")
	same(t, summary(f.find("sound")), "sound pci-0000_00_1f.3: /dev/snd/controlC0 /dev/snd/pcmC0D0c /dev/snd/pcmC0D0p /dev/snd/timer\n")
	same(t, summary(f.find("/dev/snd/pcm*")), "sound pci-0000_00_1f.3-pcm-D0c: /dev/snd/pcmC0D0c\nsound pci-0000_00_1f.3-pcm-D0p: /dev/snd/pcmC0D0p\n")
	same(t, summary(f.find("/dev/snd/timer")), "sound timer: /dev/snd/timer\n")
}

func TestTPM(t *testing.T) {
	f := newFixture(t)
	f.dir("sys/devices/platform/MSFT0101:00")
	f.device("platform/MSFT0101:00/tpm/tpm0", "tpm", "tpm0", "10:224")
	f.behind("platform/MSFT0101:00/tpm/tpm0", "platform/MSFT0101:00")
	f.device("platform/MSFT0101:00/tpmrm/tpmrm0", "tpmrm", "tpmrm0", "253:65536")
	same(t, summary(f.find("tpm")), "tpm tpm-MSFT0101_00: /dev/tpm0 /dev/tpmrm0\n")
}

func TestVFIO(t *testing.T) {
	f := newFixture(t)
	f.pci(bus+"0000:01:00.0", "10de", "2204", "vfio-pci")
	f.pci(bus+"0000:01:00.1", "10de", "1aef", "vfio-pci")
	f.device("virtual/misc/vfio", "misc", "vfio/vfio", "10:196")
	f.device("virtual/vfio/17", "vfio", "vfio/17", "511:0")
	for _, fn := range []string{"0000:01:00.0", "0000:01:00.1"} {
		f.to("sys/kernel/iommu_groups/17/devices/"+fn, "sys/devices/"+bus+fn)
	}
	f.device("virtual/vfio/18", "vfio", "vfio/18", "511:1") // whose members are not told
	same(t, summary(f.find("vfio")), `
		vfio group-18: /dev/vfio/18 /dev/vfio/vfio
		vfio pci-0000_01_00.0: /dev/vfio/17 /dev/vfio/vfio
		vfio vfio: /dev/vfio/vfio
	`)
	if found := f.find("vfio,group=17"); len(found) != 1 || found[0].Attributes[AttrProduct] != "2204" {
		t.Errorf("group 17 is %v", found)
	}
	same(t, summary(f.find("/dev/vfio/vfio")), "vfio vfio: /dev/vfio/vfio\n")
}

func TestInfiniBand(t *testing.T) {
	f := newFixture(t)
	const hca = bus + "0000:3b:00.0"
	f.pci(hca, "15b3", "101b", "mlx5_core")
	f.attrs("sys/devices/"+hca+"/infiniband/mlx5_0", "node_guid", "0c42:a103:00aa:bbcc", "hca_type", "MT4123")
	f.behind(hca+"/infiniband/mlx5_0", hca)
	f.to("sys/class/infiniband/mlx5_0", "sys/devices/"+hca+"/infiniband/mlx5_0")
	f.device(hca+"/infiniband_verbs/uverbs0", "infiniband_verbs", "infiniband/uverbs0", "231:192")
	f.device(hca+"/infiniband_mad/umad0", "infiniband_mad", "infiniband/umad0", "231:0")
	f.device("virtual/misc/rdma_cm", "misc", "infiniband/rdma_cm", "10:58")
	f.attrs("sys/devices/"+hca+"/infiniband_verbs/uverbs0", "ibdev", "mlx5_0")
	f.attrs("sys/devices/"+hca+"/infiniband_mad/umad0", "ibdev", "mlx5_0", "port", "1")
	same(t, summary(f.find("infiniband")), "infiniband pci-0000_3b_00.0: /dev/infiniband/uverbs0 /dev/infiniband/umad0 /dev/infiniband/rdma_cm\n")
	same(t, summary(f.find("/dev/infiniband/*")), `
		infiniband pci-0000_3b_00.0-umad-1: /dev/infiniband/umad0
		infiniband pci-0000_3b_00.0-uverbs: /dev/infiniband/uverbs0
		infiniband rdma_cm: /dev/infiniband/rdma_cm
	`)
}

func TestDisks(t *testing.T) {
	f := newFixture(t)
	f.pci(bus+"0000:02:00.0", "144d", "a80a", "nvme")
	const nvme = bus + "0000:02:00.0/nvme/nvme0/nvme0n1"
	f.device(nvme, "block", "nvme0n1", "259:0")
	f.attrs("sys/devices/"+nvme, "wwid", "eui.0025385c11b0fa27")
	f.device(nvme+"/nvme0n1p1", "block", "nvme0n1p1", "259:1")
	f.attrs("sys/devices/"+nvme+"/nvme0n1p1", "partition", "1")
	f.device(bus+"0000:00:17.0/ata1/block/sda", "block", "sda", "8:0")
	f.to("dev/disk/by-id/ata-Samsung_SSD_870_S6PNNJ0", "dev/sda")
	f.to("dev/disk/by-id/wwn-0x5002538f", "dev/sda")
	f.device("virtual/block/loop0", "block", "loop0", "7:0")
	same(t, summary(f.find("block")), `
		block eui.0025385c11b0fa27: /dev/nvme0n1
		block eui.0025385c11b0fa27-part1: /dev/nvme0n1p1
		block loop0: /dev/loop0
		block wwn-0x5002538f: /dev/sda
	`)
	same(t, summary(f.find("/dev/disk/by-id/ata-*")), "block wwn-0x5002538f: /dev/disk/by-id/ata-Samsung_SSD_870_S6PNNJ0</dev/sda\n")
	same(t, summary(f.find("/dev/disk/by-id/*")), "block wwn-0x5002538f: /dev/disk/by-id/ata-Samsung_SSD_870_S6PNNJ0</dev/sda /dev/disk/by-id/wwn-0x5002538f</dev/sda\n")
}
