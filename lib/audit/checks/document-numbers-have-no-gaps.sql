-- the documents of a series are numbered without gaps, including void ones
select s.program_id, 'series ' || s.series as subject, format('%s documents from %s to %s', count(d.id), min(d.number), max(d.number)) as found,
  '1 to ' || s.last_number as expected
from document_series s left join documents d on d.program_id = s.program_id and d.series = s.series
where $1::bigint is null or s.program_id = $1
group by s.program_id, s.series, s.last_number
having count(d.id) <> s.last_number or min(d.number) <> 1 or max(d.number) <> s.last_number
