#!/bin/sh
# backup.sh FOLDER [nightly]: writes a backup into FOLDER and deletes backups older than two weeks. With `nightly` it does so every
# night after two o'clock (UTC). It uses DATABASE_URL, or the running embedded database of the folder DATA. BACKUP_RECIPIENT encrypts it.
# With ARCHIVE_FOLDER, past months of clicks are archived there once, and backups skip them. BACKUP_COPY is a shell command that copies the file "$1" to another place.
set -eu
umask 077
folder=$1

backup() {
  if [ -z "${DATABASE_URL:-}" ] && [ ! -e "${DATA:-data}/database-url" ]; then
    echo "Nothing runs on the folder ${DATA:-data}. Start the service, then this again." >&2
    return 1
  fi
  url=${DATABASE_URL:-$(cat "${DATA:-data}/database-url")}
  file="$folder/svc-$(date -u +%FT%H%M%S).sql.gz${BACKUP_RECIPIENT:+.age}"
  if [ -n "${ARCHIVE_FOLDER:-}" ]; then DATABASE_URL=$url node lib/commands/archive.ts write "$ARCHIVE_FOLDER" || return 1; fi
  # Delete old ones only after a new one. `&&` is needed because `set -e` has no effect in a function that `||` follows.
  DATABASE_URL=$url node lib/commands/backup.ts backup "$file" &&
    sh -c "${BACKUP_COPY:-:}" copy "$file" &&
    find "$folder" -name 'svc-*.sql.gz*' -mtime +14 -delete
}

if [ "${2:-}" != nightly ]; then
  backup
  exit
fi
while :; do
  now=$(date -u +%s)
  sleep $((((now - 8100) / 86400 + 1) * 86400 + 8100 - now))
  backup || echo '{"level":"error","error":"backup"}'
done
