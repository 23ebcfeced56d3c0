#!/usr/bin/env python3
"""What copies of a model on further disks gain: tokens/s from the first disk alone, from the first two, and so on, alternating.

  copies.py MODEL --rate 300M --rate 300M [--ram min] [--tokens 32] [--rounds 3] [--images /dev/shm] [--sluice build/sluice]

Each --rate is a disk: a loop device on an image in a folder of --images (memory, where the reads themselves cost little), with a copy of
MODEL, which the kernel's control group lets be read at so many bytes a second. Needs root, losetup, mkfs.ext4, and memory for the images.
The answers are compared: they must be the same ids. The kernel lets a disk that rested read at any rate for a moment, so doctor cannot
measure these; generate measures on its way.
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile, time

V1 = "/sys/fs/cgroup/blkio"


def size(text):
    return int(float(text.rstrip("KMG")) * {"K": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1))


class Disk:
    def __init__(self, folder, model, rate):
        self.rate, self.image, self.mount = rate, folder + ".img", folder
        os.mkdir(folder)
        with open(self.image, "wb") as image:
            image.truncate(int(os.path.getsize(model) * 1.05) + (64 << 20))
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", self.image], check=True)
        self.device = subprocess.run(["losetup", "-f", "--show", self.image], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run(["mount", self.device, folder], check=True)
        self.model = shutil.copy(model, folder)
        subprocess.run(["sync", "-f", folder], check=True)
        with open(f"/sys/block/{os.path.basename(self.device)}/dev") as file:
            self.number = file.read().strip()

    def remove(self):
        for _ in range(50):  # a ring of io_uring lets its files go a moment after its process
            if subprocess.run(["umount", self.mount], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        subprocess.run(["losetup", "-d", self.device])


class Group:
    """A control group under which the disks have their rates."""

    def __init__(self, disks):
        self.v1 = os.path.isdir(V1)
        self.path = os.path.join(V1 if self.v1 else "/sys/fs/cgroup", f"sluice-copies-{os.getpid()}")
        os.mkdir(self.path)
        for disk in disks:
            with open(os.path.join(self.path, "blkio.throttle.read_bps_device" if self.v1 else "io.max"), "w") as file:
                file.write(f"{disk.number} {disk.rate}" if self.v1 else f"{disk.number} rbps={disk.rate}")

    def enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write("0")


def run(args, group, disks, metrics):
    copies = [flag for disk in disks[1:] for flag in ("--copy", disk.model)]
    command = [args.sluice, "generate", disks[0].model, *copies, "--prompt", "hello", "--ram", args.ram, "--max-tokens", str(args.tokens),
               "--temp", "0", "--ignore-eos", "--print-ids", "--no-history", "--metrics", metrics, "-q", *args.option]
    answer = subprocess.run(command, preexec_fn=group.enter, check=True, capture_output=True).stdout
    with open(metrics) as file:
        return answer, json.load(file)


def measure(args, group, disks, folder):
    rates, first = {n: [] for n in range(1, len(disks) + 1)}, None
    for _ in range(args.rounds):
        for n in rates:
            answer, told = run(args, group, disks[:n], os.path.join(folder, "metrics.json"))
            first = first or answer
            if answer != first:
                sys.exit(f"{n} disks give another answer")
            rates[n].append(told["times"]["decode_tokens_per_s"])
            print(f"{n} disks: {rates[n][-1]:.3f} tokens/s, {told['reads']['read_bytes_per_token'] / 1e6:.1f} MB a token, GB of each:",
                  ", ".join(f"{copy['read_bytes'] / 1e9:.2f}" for copy in told.get("copies", [])) or "all", flush=True)
    for n, values in rates.items():
        median, one = statistics.median(values), statistics.median(rates[1])
        print(f"{n} disks: median {median:.3f} tokens/s ({min(values):.3f} to {max(values):.3f}), {median / one:.2f} times one disk")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--rate", action="append", type=size, required=True)
    parser.add_argument("--ram", default="min")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", default="/dev/shm")
    parser.add_argument("--sluice", default="build/sluice")
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    disks, group = [], None
    with tempfile.TemporaryDirectory(dir=args.images) as folder:
        try:
            for i, rate in enumerate(args.rate):
                disks.append(Disk(os.path.join(folder, f"disk{i}"), args.model, rate))
            group = Group(disks)
            measure(args, group, disks, folder)
        finally:
            for disk in disks:
                disk.remove()
            if group:
                os.rmdir(group.path)


if __name__ == "__main__":
    main()
