#!/usr/bin/env bash
# Certificates for the members of an ensemble (docs/operations.md#certificates-for-the-members). All is in one folder,
# which holds the authority's key: keep it where no member is.
#
#   certificates.sh new FOLDER                      an authority, and an empty list of revoked certificates
#   certificates.sh issue FOLDER NAME ADDRESS...    NAME.crt and NAME.key, for a host with these IPv4 addresses; for clients
#                                                   (docs/encryption.md) its names, too
#   certificates.sh revoke FOLDER NAME              NAME.crt counts no more, for who reads revoked.pem again
set -euo pipefail
umask 077
DAYS=3650  # of the authority and the list of revoked ones; without a list in force nobody trusts anybody
HOST_DAYS=825

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
command=$1; folder=$2; shift 2

settings() {
  cat > ca.cnf <<END
[ca]
default_ca = members
[members]
dir = .
database = ca.index
crlnumber = ca.crlnumber
new_certs_dir = issued
certificate = authority.crt
private_key = authority.key
default_md = sha256
default_crl_days = $DAYS
policy = names
unique_subject = no
rand_serial = yes
copy_extensions = copy
[names]
commonName = supplied
END
}

list_revoked() { openssl ca -config ca.cnf -gencrl -out revoked.new && mv revoked.new revoked.pem; }
new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc"

case $command in
  new)
    mkdir -p "$folder/issued"; cd "$folder"
    [ ! -e authority.key ] || { echo "$folder has an authority" >&2; exit 1; }
    settings; : > ca.index; echo 01 > ca.crlnumber
    openssl req -x509 $new_key -days $DAYS -subj "/CN=members" -keyout authority.key -out authority.crt
    list_revoked ;;
  issue)
    [ $# -ge 2 ] || usage
    name=$1; shift; cd "$folder"
    addresses=
    for each in "$@"; do
      case $each in *[!0-9.]*) addresses+=",DNS:$each" ;; *) addresses+=",IP:$each" ;; esac
    done
    openssl req -new $new_key -subj "/CN=$name" -addext "subjectAltName=${addresses#,}" -keyout "$name.key" -out "$name.csr"
    openssl ca -config ca.cnf -batch -notext -days $HOST_DAYS -in "$name.csr" -out "$name.crt"
    rm "$name.csr" ;;
  revoke)
    [ $# -eq 1 ] || usage
    cd "$folder"
    openssl ca -config ca.cnf -revoke "$1.crt"
    list_revoked ;;
  *) usage ;;
esac
