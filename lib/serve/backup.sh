#!/bin/sh
# backup.sh FOLDER [nightly]: writes the backup of today into FOLDER, and deletes those older than two weeks. With `nightly` it does so
# every night after two o'clock (UTC). DATABASE_URL says of which database; without it, that of the folder DATA while it runs.
set -eu
umask 077
folder=$1

backup() {
  url=${DATABASE_URL:-$(cat "${DATA:-data}/database-url")}
  DATABASE_URL=$url node lib/commands/backup.ts backup "$folder/svc-$(date -u +%F).sql.gz"
  find "$folder" -name 'svc-*.sql.gz' -mtime +14 -delete
}

if [ "${2:-}" != nightly ]; then
  backup
  exit
fi
while :; do
  now=$(date -u +%s)
  sleep $(((now / 86400 + 1) * 86400 + 8100 - now))
  backup || echo '{"level":"error","error":"backup"}'
done
