# What a host does in the test of units (machine.py), each step of which says what came of it. The configuration is there, the units are
# enabled, and so they start with the host.
export SYSTEMD_PAGER= SYSTEMD_COLORS=0 PATH=/usr/sbin:/usr/bin:/sbin:/bin
UNITS="slice-managerd@manager1 slice-dird@dir1 slice-smallfiled@small1 slice-stored@store1 slice-coordd@coord1 slice-proxyd@proxy1"
failures=0

expect() {  # WHAT ACTUAL EXPECTED
  if [ "$2" = "$3" ]; then echo "ok units: $1"; else echo "not ok units: $1: '$2' in place of '$3'"; failures=$((failures + 1)); fi
}
has() { systemctl show --value -p "$2" "$1"; }  # UNIT PROPERTY
becomes() {  # UNIT PROPERTY VALUE: within 60 s
  for _ in $(seq 60); do [ "$(has "$1" "$2")" = "$3" ] && break; sleep 1; done
  expect "$1: $2" "$(has "$1" "$2")" "$3"
}
serving() {  # all of them, within 60 s
  for _ in $(seq 60); do
    said="$(systemctl show --value -p StatusText $UNITS | sort -u | tr -d '\n')"
    [ "$said" = serving ] && break
    sleep 1
  done
  expect "all serve" "$said" serving
}

echo "up after $(cut -d' ' -f1 /proc/uptime) s"
expect "slice.target is enabled" "$(systemctl is-enabled slice.target)" enabled
systemctl start $UNITS  # waits until they are ready
expect "all are active" "$(systemctl is-active $UNITS | sort -u)" active
serving
echo "serving after $(cut -d' ' -f1 /proc/uptime) s"
expect "the virtual address is there" "$(ip -o address show to 10.77.0.1 | wc -l)" 1
expect "and the one of IPv6" "$(ip -o address show to fd77::1 | wc -l)" 1
expect "it forwards" "$(cat /proc/sys/net/ipv4/ip_forward)$(cat /proc/sys/net/ipv4/conf/lo/rp_filter)" 11
expect "buffers of UDP sockets" "$(cat /proc/sys/net/core/rmem_max)" 8388608
expect "servers are no root" "$(stat -c %U "/proc/$(has slice-stored@store1 MainPID)")" slice
expect "data is closed to others" "$(stat -c '%U %a' /var/lib/slice/store1)" "slice 700"
slice-load --server 10.77.0.1 --mount-port 20048 --rate 20 --clients 1 --warm-up 0 --interval 2 --bytes-per-op 64KiB > /tmp/load 2>&1
expect "it takes a load" $? 0
slice-load --server fd77::1 --mount-port 20048 --rate 20 --clients 1 --warm-up 0 --interval 2 --bytes-per-op 64KiB > /tmp/load 2>&1
expect "and one over IPv6" $? 0

# A client's proxy, as mount.slice starts it.
echo 'SLICE_CLIENTD_OPTIONS="--metrics 127.0.0.1:9049"' > /etc/default/slice-clientd
systemctl start slice-client@10.77.0.1  # waits until it is ready
expect "a client's proxy is active" "$(systemctl is-active slice-client@10.77.0.1)" active
port=$(cat /run/slice-client/10.77.0.1.port)
expect "it listens to this host alone" "$(ss -Hltn "sport = :$port" | awk '{print $4}')" "127.0.0.1:$port"
page='exec 3<>/dev/tcp/127.0.0.1/9049; printf "GET $0 HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n" >&3; cat <&3'
expect "it serves, says its page" "$(bash -c "$page" /-/ready | tail -n 1)" ready
expect "which tells what it asked for" "$(bash -c "$page" /metrics | grep -c '^slice_client_routes_asked_total [1-9]')" 1
kill -9 "$(has slice-client@10.77.0.1 MainPID)"
becomes slice-client@10.77.0.1 NRestarts 1
becomes slice-client@10.77.0.1 ActiveState active
expect "it has kept its port" "$(cat /run/slice-client/10.77.0.1.port)" "$port"
systemctl stop slice-proxyd@proxy1
systemctl restart slice-client@10.77.0.1
expect "it starts with the routes that it has kept, while no proxy answers" "$(systemctl is-active slice-client@10.77.0.1)" active
systemctl start slice-proxyd@proxy1
mount -t slice 10.77.0.1:/ /nowhere 2> /tmp/mount-said
expect "mount finds mount.slice, which says what mount says" "$? $(grep -c '/nowhere' /tmp/mount-said)" "32 1"
systemctl stop slice-client@10.77.0.1

# Raw volumes, as slice-blockd serves them.
slicectl volume create disk1 --size 8MiB > /tmp/volume 2>&1
expect "a raw volume is made" $? 0
systemctl start slice-blockd  # waits until it is ready
expect "slice-blockd is active" "$(systemctl is-active slice-blockd)" active
expect "its socket is its group's" "$(stat -c '%U %G %a' /run/slice-block/nbd.sock)" "slice slice 660"
said="$(timeout 60 perl -MIO::Socket::UNIX -e '
  my $nbd = IO::Socket::UNIX->new("/run/slice-block/nbd.sock") or die "no connection: $!";
  read($nbd, my $greeting, 18);
  print $nbd pack("N", 3), "IHAVEOPT", pack("NN", 3, 0);
  read($nbd, my $listed, 29);
  print substr($greeting, 0, 8), " ", substr($listed, 24)')"
expect "who asks there is told of the volume" "$said" "NBDMAGIC disk1"
kill -9 "$(has slice-blockd MainPID)"
becomes slice-blockd NRestarts 1
becomes slice-blockd ActiveState active
# And over the link, as docs/raw-volumes.md has its services; both ends are here.
(cd /etc/slice && head -c 32 /dev/urandom > link.key && chown slice: link.key && chmod 600 link.key)
mkdir -p /etc/systemd/system/slice-blockd.service.d
cat > /etc/systemd/system/slice-blockd.service.d/override.conf <<END
[Service]
ExecStart=
ExecStart=/usr/bin/slice-blockd --config /etc/slice/ensemble.toml --unix /run/slice-block/nbd.sock --link-udp 127.0.0.1 --link-key /etc/slice/link.key
END
systemctl daemon-reload
systemctl restart slice-blockd
systemctl start slice-link@127.0.0.1
expect "both ends of the link are active" "$(systemctl is-active slice-blockd slice-link@127.0.0.1 | sort -u)" active
said="$(timeout 60 perl -MIO::Socket::UNIX -e '
  my $nbd = IO::Socket::UNIX->new("/run/slice-link/nbd.sock") or die "no connection: $!";
  read($nbd, my $greeting, 18);
  print $nbd pack("N", 3), "IHAVEOPT", pack("NN", 1, 5), "disk1";
  read($nbd, my $size, 8);
  print unpack("Q>", $size)')"
expect "the volume is there over the link" "$said" 8388608
systemctl stop slice-link@127.0.0.1 slice-blockd
slicectl volume remove disk1 > /tmp/volume 2>&1
expect "the volume is removed" $? 0

# One that dies, and one that hangs, which the watchdog ends.
expect "the watchdog leaves alone who lives" "$(has slice-coordd@coord1 NRestarts)" 0
kill -9 "$(has slice-stored@store1 MainPID)"
kill -STOP "$(has slice-coordd@coord1 MainPID)"
becomes slice-stored@store1 NRestarts 1
becomes slice-coordd@coord1 NRestarts 1
serving
systemctl reload slice-managerd@manager1
expect "the manager is reloaded" $? 0

cp /etc/slice/ensemble.toml /tmp/good.toml
echo nonsense >> /etc/slice/ensemble.toml
for unit in slice-stored@store1 slice-proxyd@proxy1; do
  systemctl restart "$unit" 2>/dev/null
  sleep 1.5
  expect "$unit with a wrong configuration" "$(has "$unit" ActiveState) $(has "$unit" ExecMainStatus) $(has "$unit" NRestarts)" "failed 2 0"
done
cp /tmp/good.toml /etc/slice/ensemble.toml
systemctl start slice.target  # which wants them all
serving

systemctl stop slice.target
becomes slice-proxy-network ActiveState inactive  # the last
expect "all stop" "$(systemctl is-active $UNITS | sort -u)" inactive
expect "the virtual address is gone" "$(ip -o address show to 10.77.0.1 | wc -l)$(ip -o address show to fd77::1 | wc -l)" 00
# docs/install.md, "Containers": who asks at the socket, as docker-compose does, is answered by a service that starts then.
expect "podman does not run" "$(systemctl is-active podman.socket podman.service | sort -u)" inactive
START_PODMAN
expect "its socket is there, and it does not run yet" "$(systemctl is-active podman.socket podman.service | tr '\n' ' ')" "active inactive "
said="$(timeout 300 perl -MIO::Socket::UNIX -e '
  my $podman = IO::Socket::UNIX->new("PODMAN_SOCKET") or die "no connection: $!";
  print $podman "GET /_ping HTTP/1.0\r\n\r\n";
  print grep { /^HTTP|^OK$/ } <$podman>' | tr -d '\r' | tr '\n' ' ')"
expect "it answers who asks" "$said" "HTTP/1.0 200 OK OK"
echo "done after $(cut -d' ' -f1 /proc/uptime) s"
exit "$((failures > 0))"
